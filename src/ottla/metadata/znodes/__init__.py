"""Every znode of a Kafka 3.9 cluster: its path, how it is written, how it is read.

    paths       where everything is
    brokers     who lives
    topics      who holds what, and who leads
    cluster     the controller, its epoch, the cluster's id, features, producer ids
    configs     settings that changed while running
    orders      what tools and brokers ask of the controller
    security    access rules and delegation tokens

``encode_x`` gives the very bytes that Kafka 3.9 writes. ``decode_x`` reads what any version wrote that Kafka 3.9
reads, and raises ZnodeError for the rest.
"""
