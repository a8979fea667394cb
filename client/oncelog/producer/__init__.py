"""Producing: batching, partitioning, sending."""
