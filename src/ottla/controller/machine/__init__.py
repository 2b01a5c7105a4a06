"""What the controller decides. Pure: a situation goes in; states to write, orders to give and refusals come out.

situation       the cluster's image, and what only a controller knows: who is leaving, which replicas have no disk
elections       who leads and who is in sync
isr             what becomes of a leader's wish for another ISR
reassignment    how a partition moves from brokers to others, phase by phase
deletion        how a topic goes, replica by replica
answers         what brokers say to orders
orders          LeaderAndIsr, UpdateMetadata and StopReplica: gathered, merged, one stream a broker
"""
