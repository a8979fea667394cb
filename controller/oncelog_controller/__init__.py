"""The controller: election, cluster state machine, placement, znodes, orders to brokers."""
