"""A whole ensemble in one process under a seed: the same ``Member`` as in production, over simulated seams.

Theory of operation
-------------------
``World`` draws everything from one seed: how many servers, what the network and the disks do, which faults strike and
what the clients ask. Time is simulated, so a minute of faults takes a second. Nothing is real but the code under test.

    loop      simulated time
    clock     one machine's two clocks, each wrong in its own way
    disk      page cache against durable image; loses what was not synced
    net       notifications like datagrams, links like TCP connections; cuts, delays, resets
    server    one machine: disk and clocks that outlive its processes, and the process that runs now
    client    a session with its operations and watches, coming back wherever it can (conn, wire, workload, watching)
    faults    what goes wrong, and when
    truth     what the ensemble has committed, replayed on a naive model (model, oracle)
    checks    the invariants, after every step
    coverage  what has happened at least once, so that a green run proves something
    mutants   the code under test with one bug each; the simulation must turn red on every one

A run has a chaos phase and a healing phase. In the first, only safety is checked; in the second, everything is
repaired, and the ensemble must come back within a bound with every server equal to the model.

A seed reproduces a run exactly: ``python -m tests.sim --replay SEED``.
"""

from tests import sources

sources.prefer_sources()  # the mutants replace methods, and the epochs are made short
