"""This room has a broker's part in everybody's transactions: it carries and writes markers.

It also verifies that a transaction's coordinator knows of a partition.
"""
