"""Apache Kafka and its Python clients, run beside Oncelog on the same cores."""
