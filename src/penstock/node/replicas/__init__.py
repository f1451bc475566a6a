"""Partitions: appends, flushes, waits, reads and maintenance."""
