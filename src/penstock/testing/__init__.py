"""Runs real brokers and clusters for tests, demos and notebooks. Never used by the broker itself."""

from penstock.testing.broker import Broker, Flag, running_broker
from penstock.testing.child_server import BrokerDied
from penstock.testing.cluster import Cluster, CoordinatorServer, running_cluster

__all__ = [
    "Broker",
    "BrokerDied",
    "Cluster",
    "CoordinatorServer",
    "Flag",
    "running_broker",
    "running_cluster",
]
