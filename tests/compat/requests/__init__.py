"""Random requests to a broker, by kind. ``tests.compat.broker_requests`` puts them together."""
