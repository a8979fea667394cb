"""Kafka's wire is encoded and decoded here. Pure: no loop, no clock, no I/O."""
