"""Decide/apply machines: decide reads and never writes, apply writes and never refuses."""
