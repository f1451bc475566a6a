"""The vocabulary of settings: kinds, bounds, units, and the parsing of values."""
