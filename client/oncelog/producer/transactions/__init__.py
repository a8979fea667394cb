"""The transactions of one producer."""
