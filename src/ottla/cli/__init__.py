"""The ``ottla`` command. The only package that knows both brokers and keepers: here processes are put together."""
