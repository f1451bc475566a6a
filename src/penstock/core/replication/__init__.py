"""Replication of one partition, without I/O: what the leader knows about its followers, and where logs diverge."""
