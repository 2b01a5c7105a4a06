"""Clients that nobody here wrote, each behind a small program that all speak alike.

Every client is a program of its own, in its own language: it is told things by lines of JSON on standard input and
answers each with one line on standard output. So one list of scenarios runs with all of them, a client that leaks or
crashes harms no other, and what one wrote another can read.

    said first      {"version": "1.2.3"}                                 of the library that does the work
    every request   {"do": WHAT, "bootstrap": "host:port", ...}
    refused         {"error": "words", "code": 36}                       Kafka's number of the error, -1 where there is none

    create      topic, partitions, config {name: value}     {}
    grow        topic, partitions                           {}
    delete      topic                                       {}
    list                                                    {"topics": [name, ...]}
    describe    topic                                       {"partitions": [[number, leader, [replica, ...], [in sync, ...]], ...]}
    configs     topic                                       {"configs": {name: value}}
    offsets     topic, partition, time                      {"earliest": n, "latest": n, "at": n}    at or after time, -1: none
    produce     topic, codec, acks ("0", "1", "all"),       {"offsets": [n, ...]}    in the order of the records
                idempotent, records
    read        topic, assigned [partition, ...], visits    {"visits": [[record, ...], ...]}

A visit is ``{"offset": n, "count": n}`` or ``{"time": ms, "count": n}``: one consumer, to which all the partitions are
assigned, seeks there in each of them and reads until it has so many records, or until a minute has passed. Each
``produce`` makes its own producer, sends everything without waiting in between, and closes it.

A record is ``{"partition", "offset", "timestamp", "key", "value", "headers": [[name, value], ...]}``, bytes in base 64.
A producer is given neither offset, nor a timestamp when it is null. Requests larger than what a broker takes by default
must leave the client, so that the broker is the one who refuses.
"""
