"""The keeper: a coordination ensemble that any ZooKeeper client takes for ZooKeeper."""
