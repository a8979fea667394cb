"""This package runs the transactions of one producer."""
