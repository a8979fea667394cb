"""Apache Kafka and its Python clients are run beside Oncelog on the same cores."""
