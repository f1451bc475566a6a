"""Blocking Kafka protocol client without librdkafka: connections, routing, fetches and transactions, call by call."""
