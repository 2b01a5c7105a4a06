"""Reading a log in bulk: raw fetches or segment files to Arrow.

    cluster ─ metadata, offsets ─► plan: which offsets of which partitions
    fetching (network) | files (segments) ─► runs of batches ─► decoding ─► kernel ─► columns ─► record batches
                                                                                └─ formats: typed columns of the values

It speaks Kafka as any client does, so it reads any Kafka cluster, and opens any Kafka broker's data directory.
"""
