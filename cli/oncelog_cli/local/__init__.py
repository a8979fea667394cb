"""A cluster on this machine has a real ZooKeeper and broker processes, which are started here."""
