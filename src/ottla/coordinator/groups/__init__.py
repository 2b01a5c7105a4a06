"""Consumer groups, classic protocol: membership and offsets on ``__consumer_offsets``.

coordinator    which partition a group belongs to, and its runtime (I/O)
shard          the groups of one partition: requests to outcomes, records to state
rebalance      how members join, synchronize, are heard of and leave
group, member  one group and its members as values
removal        which offsets expire, and when a group goes
offsets        what a group has committed
formats        records as Kafka 3.9 writes them
"""
