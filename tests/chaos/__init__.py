"""Real processes under faults: load, faults, and a checker that knows what an ensemble promises its clients."""

from tests import sources

sources.prefer_sources()  # ``sabotage`` replaces methods; the servers themselves are processes of their own, and compiled
