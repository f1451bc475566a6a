"""Clients under load, one process each, on three independent stacks. Never judges: it writes down what it saw."""
