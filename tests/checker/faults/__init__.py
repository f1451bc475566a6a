"""Faults of a cluster by what they hit. Each heals what it did before it returns."""
