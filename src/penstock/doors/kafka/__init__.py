"""The main door: Kafka's wire protocol."""
