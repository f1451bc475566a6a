"""Metrics of a node and their Prometheus exposition. Read-only."""
