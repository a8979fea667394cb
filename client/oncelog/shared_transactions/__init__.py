"""Transactions of many writers in many processes: their owner and their writers."""
