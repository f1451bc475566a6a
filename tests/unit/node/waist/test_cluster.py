"""Unregistering brokers, with the words that Kafka uses."""

from __future__ import annotations

import pytest

from cluster_nodes import ClusterNodes, on_a_cluster
from memory_broker import with_broker
from penstock.core.errors import UnknownBroker
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.waist.waist import Waist

ANN = Session("kafka", principal="User:ann")
UNKNOWN = "Broker ID 77 is not currently registered"


async def unregister_nobody(broker: Broker) -> None:
    with pytest.raises(UnknownBroker, match=UNKNOWN):
        await Waist(broker).cluster.unregister(ANN, 77)


def test_a_broker_that_is_not_there_is_unknown_to_a_cluster() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await unregister_nobody(nodes.brokers[1])

    on_a_cluster(play)


def test_a_broker_that_is_not_there_is_unknown_to_a_single_broker() -> None:
    with_broker(unregister_nobody)
