"""Real processes under faults: load, faults, and a checker that knows what an ensemble promises its clients."""
