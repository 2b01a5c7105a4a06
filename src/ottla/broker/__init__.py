"""The server: requests of Kafka's protocol answered from the partitions on this broker and the image of the cluster."""
