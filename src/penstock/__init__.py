"""Penstock: one durable, partitioned, append-only log, served through many doors."""

__version__ = "0.1.0"
