"""This room speaks Kafka's protocol to clients of Kafka."""
