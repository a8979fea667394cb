"""Replication keeps roles, the in-sync set, the high watermark, fetch loops and delayed
operations."""
