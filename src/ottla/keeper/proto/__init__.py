"""The ZooKeeper protocol as data: jute, requests, replies, transactions, error codes. Pure."""
