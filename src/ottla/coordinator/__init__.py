"""Groups, and later transactions, as replicated state machines on internal topics.

runtime     what they have in common: shards of a topic, loaded, asked and given up (I/O)
led         one of them: what is written together, who waits for replicas, its timers (I/O)
outcome     what a shard decides
loading     a log replayed into a shard
groups/     consumer groups on ``__consumer_offsets``
"""
