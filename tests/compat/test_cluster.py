"""What every client says about the cluster and its disks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compat.clients.kcat import KcatClient
from compat.roster import KCAT, able
from compat.vocabulary import Client, CreateTopic, Sent


@pytest.mark.parametrize("client", able("cluster"), indirect=True)
def test_describe_cluster(client: Client, bootstrap: str) -> None:
    cluster = client.cluster()
    assert cluster.cluster_id
    assert cluster.controller_id in {node for node, _, _ in cluster.brokers}
    assert set(bootstrap.split(",")) == {f"{host}:{port}" for _, host, port in cluster.brokers}


def test_all_clients_see_the_same_cluster(client_named: Callable[[str], Client]) -> None:
    assert len({client_named(name).cluster() for name in able("cluster")}) == 1


def test_kcat_sees_the_same_brokers(client_named: Callable[[str], Client]) -> None:
    kcat = client_named(KCAT)
    assert isinstance(kcat, KcatClient)
    seen = client_named(able("cluster")[0]).cluster().brokers
    assert kcat.broker_ids() == [node for node, _, _ in seen]


@pytest.mark.parametrize("client", able("log_dirs"), indirect=True)
def test_log_dirs_hold_what_was_written(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic(partitions=2)
    client.produce(topic, [Sent(b"x" * 1000)], partition=1)
    sizes = client.log_dirs()
    assert sizes[topic, 0] == 0
    assert sizes[topic, 1] >= 1000
