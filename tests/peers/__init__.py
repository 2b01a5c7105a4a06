"""Real servers for tests: Apache ZooKeeper, Apache Kafka and our own keepers, started as processes.

Every process has a process group of its own, is ended by its process id, and keeps its output in a file. What a peer
needs from Maven or from the Go proxy is brought into ``.peers/`` of the checkout on first use; a peer that cannot be
had is an error, never a reason to skip.
"""

from tests.peers.ensemble import Ensemble, OttlaKeepers, RealZooKeeper
from tests.peers.maven import libraries
from tests.peers.processes import Process, free_ports, wait_until
from tests.peers.words import four_letter_word, mntr

__all__ = [
    "Ensemble",
    "OttlaKeepers",
    "Process",
    "RealZooKeeper",
    "four_letter_word",
    "free_ports",
    "libraries",
    "mntr",
    "wait_until",
]
