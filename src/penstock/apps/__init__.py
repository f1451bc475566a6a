"""Mains: the one place that knows everybody."""
