"""What tests, demos and notebooks use of Penstock: a real broker, started and stopped. Never used by the broker."""

from penstock.testing.broker import Broker, BrokerDied, Flag, running_broker

__all__ = ["Broker", "BrokerDied", "Flag", "running_broker"]
