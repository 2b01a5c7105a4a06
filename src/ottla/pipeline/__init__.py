"""The data pipeline on Spark: events in topics are cleaned, aggregated and served, live and from history.

    topics ─► clean: parse, normalize, judge ─► events, each once ─► aggregate ─► tables of Parquet, topics, SQL
                             └─► dead letters, with the reason

    clean, aggregate     functions of data frames, for notebooks as well
    definition, tables   what a pipeline is, from TOML
    batch                what is done with one batch of records; a stream and history differ in nothing else
    store                the tables on disk, and the manifest that says what of it counts: exactly once
    running, session     Spark
    traffic, verdict     made traffic, and whether what was found of it is true
    report, svg          a page with plots

It is a client of any Kafka cluster, and runs on any Spark master whose workers reach the same directory.
"""
