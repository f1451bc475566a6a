"""Entry points: the only layer that may import all others."""
