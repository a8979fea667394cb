"""Kafka's messages stand here, written by tools/kafka_messages.py from Kafka's own schemas."""
