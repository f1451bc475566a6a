"""Runs a real broker for tests, demos and notebooks. Never used by the broker itself."""

from penstock.testing.broker import Broker, BrokerDied, Flag, running_broker

__all__ = ["Broker", "BrokerDied", "Flag", "running_broker"]
