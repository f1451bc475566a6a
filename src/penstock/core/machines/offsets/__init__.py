"""Committed offsets, and the roster that holds the groups and offsets of one shard."""
