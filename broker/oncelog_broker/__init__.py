"""The broker: partitioned logs, replication, coordinators, and the server in front of them."""
