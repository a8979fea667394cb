"""Consuming: positions, fetching, records and columns."""
