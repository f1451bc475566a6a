"""Coordinators of groups, offsets, transactions and subscriptions. Each hosts machines whose events are records of an
internal topic."""
