"""A real cluster for tests: the processes of ``ottla up``, in a folder that goes away with them.

    with Cluster(brokers=1) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})

Everything is done by the command line in processes of its own, so what a test sees is what a user gets. Brokers can be
killed, paused, started again, and with ``Cluster(partitions=True)`` cut off from the others; their data stays for as long as
the cluster does.

With pytest, the fixture ``ottla_cluster`` gives one (see ``plugin``).
"""

from ottla.testing.cluster import Cluster, ClusterError

__all__ = ["Cluster", "ClusterError"]
