"""What the commands that are Kafka clients share.

    connection    options of every such command, the clients they make, errors as exit codes
    output        tables, JSON, YAML and JSON lines from one list of rows
    record        a record as the commands see it
    times         instants and durations as people write them      (pure)
    ranges        from where to where to read                       (pure)
    layout        the language of format strings                    (pure)
    formatting    records to bytes by a layout                      (pure)
    reading       bytes to records by a layout, or line by line
    jsonrecord    records as JSON, there and back                   (pure)
    consuming     reading by assignment, up to the end of a range
    grouped       reading in a group, and committing what was read
    groups        what a cluster tells of groups
    resets        where a group is to go on                         (pure)
    resetting     that worked out for each partition, and carried out
    producing     sending in bounded memory, every failure named

They speak Kafka like any other client, through librdkafka, and know nothing of Ottla's servers: Apache Kafka will do.
"""
