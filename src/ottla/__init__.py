"""Ottla: a highly available distributed log with Kafka's protocol, files and znodes."""

__version__ = "0.1.0"
