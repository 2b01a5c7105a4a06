"""Compaction: of each key, the last value stays.

Theory of operation
-------------------
A compacted log has a clean part, in which no key occurs twice, and behind it a dirty one. One round of cleaning

    1. reads the dirty part and notes the last offset of each key (``sift.OffsetMap``), as far as the memory goes
    2. reads everything up to there, and writes the records that nothing later replaces into new segments, several old
       ones into one where they fit (``groups``)
    3. puts each new segment in the place of those it was made from (``log.swap``)

and the clean part ends where the map did. Offsets never change, nor does the order of the records.

What stays is decided batch by batch (``keep``), as Kafka decides it. A record without a value is the mark of a deleted key:
whoever reads along must have a chance to see it, so the first round that keeps it writes into its batch when it may go (the
delete horizon, KIP-534), and a round after that time drops it. Marks that end transactions go the same way, once no record
of the transaction is left (``transactions``). The last batch of each producer stays, if need be without records: it
says which sequence comes next.

``filth`` says which logs need it most. ``job`` is one round over one log, which needs nothing but files, so ``worker`` runs it
in a process of its own: in a thread, it would hold up every request of the broker (docs/adr/0007).
"""
