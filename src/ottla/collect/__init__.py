"""Collecting: lines of files, standard input, syslog and web beacons become records of a topic, at least once.

    sources ─► batches ─► intake ─► spool (disk) ─► sender ─► brokers
     files      what is taken or      │                 │
     stdin      refused as a whole    └ takes, waits,   └ in order; what is acknowledged leaves the spool
     syslog                             or refuses
     beacons

- A source is told that a batch is taken once it is in the spool, never before: a beacon's sender gets its 204, a file's position
  moves on. The position is part of the batch, so both survive a crash or neither does.
- Brokers that are away cost nothing but room in the spool. When that is used up, files are not read on, streams are not drained,
  and beacons get a 503.
- ``plan`` says what goes to which topic, ``opening`` makes sources of it; all of them share one spool and one sender.
- ``lines``, ``syslog``, ``tailing``, ``batches``, ``beacons`` and ``shaping`` are pure; ``spool`` owns files; the rest are shells.
"""
