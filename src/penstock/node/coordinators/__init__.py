"""Hosts of the machines: groups, offsets, transactions, subscriptions. Their events are records of internal topics."""
