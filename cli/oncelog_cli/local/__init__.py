"""A cluster on this machine: a real ZooKeeper and broker processes, found, started and ended."""
