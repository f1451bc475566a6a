"""Spark on topics: a data source to read from and write to, and sessions that fit. Never imports the node."""
