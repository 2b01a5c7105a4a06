"""Members of a group, each a program around a client that nobody here wrote.

    python -m tests.compat.members.NAME BOOTSTRAP TOPIC GROUP range|cooperative-sticky

A member joins with that assignor (not every client has the second) and sessions of six seconds, reads from the earliest offset on, and commits what it
has read, batch by batch, waiting for each commit. It says so in lines of JSON:

    {"assigned": [0, 1]}   {"revoked": [1]}   {"read": [partition, offset, value]}   {"committed": {"0": 17}}   {"failed": why}

SIGTERM makes it leave.
"""
