"""Partitions and what they are built on: appends, flushes, waits, reads, upkeep."""
