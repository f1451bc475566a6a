"""Kafka's wire protocol as data: field tables compiled into encoders and decoders."""
