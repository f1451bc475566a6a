"""Definitions of settings: kinds, bounds, units, and parsing of values."""
