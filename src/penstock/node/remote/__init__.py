"""Partitions that other brokers lead: their leaders, records and offsets. Only the brokers of a cluster load it."""
