"""The broker keeps partitioned logs, replicates them, coordinates clients and serves them."""
