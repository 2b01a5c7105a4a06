"""Controllers, brokers with their logs, clients and a registry in one process, under a seed.

virtual     an event loop whose time passes when nothing else is left to do
faults      a store that loses answers, and is late
network     ways between brokers, which are late, lose answers and are cut
disk        logs that are lists, of which a power cut takes the end
node        a broker: all that decides is the product's, over ``network`` and ``disk``
clients     producers and consumers
eras        what is committed between two unclean elections
truth       what was committed, and what must hold of it after every step
checks      what must hold after every write to the registry, and what must hold when all is well again
world       nodes that are made, killed and made again, and a workload of everything an operator does
rejected    designs that Kafka gave up, each caught by a seed
"""
