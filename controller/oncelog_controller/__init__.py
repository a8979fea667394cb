"""The controller elects leaders, keeps the cluster's state, places replicas and orders brokers."""
