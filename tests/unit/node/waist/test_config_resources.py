"""Settings of brokers: those that must be the same for the whole cluster."""

from __future__ import annotations

import pytest

from cluster_nodes import ClusterNodes, on_a_cluster
from penstock.core.errors import InvalidConfig
from penstock.core.machines.catalog.config_changes import ConfigChange, ConfigOp
from penstock.core.machines.catalog.events import BrokerConfigSaved
from penstock.core.model import Address
from penstock.node.waist.config_resources import BrokerConfigs

CHANGE = ConfigChange(ConfigOp.SET, "min.insync.replicas", "2")


def test_a_minimum_of_one_broker_is_refused_and_one_of_all_is_not() -> None:
    """M16: who is complete depends on it."""

    async def play(nodes: ClusterNodes) -> None:
        broker = nodes.brokers[1]
        configs = BrokerConfigs(broker, lambda: Address("a", 1))
        with pytest.raises(InvalidConfig, match=r"Broker-level min\.insync\.replicas cannot be altered"):
            configs.change("1", [CHANGE], broker.catalog)
        with pytest.raises(InvalidConfig, match="Broker-level"):
            configs.replace("1", [("min.insync.replicas", "2")], broker.catalog)
        (event,) = configs.change("", [CHANGE], broker.catalog)
        assert event == BrokerConfigSaved({"min.insync.replicas": "2"})

    on_a_cluster(play)
