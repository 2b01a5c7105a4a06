"""A partition's life on this broker: who leads it, who is in sync, how far it is replicated, and who waits for that."""
