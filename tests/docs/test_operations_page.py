"""The page for operators: its procedures, played on four real brokers with what a person does in between."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from pages import commands, run_commands
from penstock.testing import Cluster, running_cluster

PAGE = "docs/operations.md"
IN_ORDER, TOPIC = commands(PAGE)[:2], commands(PAGE)[2:4]
READ = ("penstock sub --topic payments --group readers --until end | wc -l", "600")
COMPLETE = [("penstock sub --topic payments --until end | wc -l", "600")]
IN_SYNC = commands(PAGE, "Rolling upgrade")[:1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("operations")
    with running_cluster(4, home, default_replication_factor=3, session_ms=3_000) as brokers:
        run_commands([*TOPIC, READ], brokers.bootstrap, home)
        yield brokers


def play(cluster: Cluster, typed: list[tuple[str, str]]) -> None:
    run_commands([*typed, *COMPLETE], cluster.bootstrap, cluster.home)


def test_rolling_upgrade(cluster: Cluster) -> None:
    for broker in cluster.brokers:
        assert broker.stop() == 0
        broker.start()
        play(cluster, commands(PAGE, "Rolling upgrade"))
    play(cluster, IN_ORDER)


def test_reassigning_and_electing(cluster: Cluster) -> None:
    play(cluster, commands(PAGE, "Reassigning replicas"))
    play(cluster, commands(PAGE, "Electing leaders"))


def test_replacing_a_disk(cluster: Cluster) -> None:
    broker = cluster.broker(2)
    broker.kill()
    shutil.rmtree(broker.data_dir)
    broker.start()
    play(cluster, commands(PAGE, "Replacing a disk"))


def test_removing_and_adding_a_broker(cluster: Cluster) -> None:
    play(cluster, commands(PAGE, "Removing brokers"))
    assert cluster.broker(4).stop() == 0
    play(cluster, commands(PAGE, "Removing brokers"))
    cluster.broker(4).start()
    play(cluster, [*commands(PAGE, "Adding brokers"), *IN_SYNC])


def test_replacing_a_broker(cluster: Cluster) -> None:
    """The last one: broker 3 does not return."""
    cluster.broker(3).kill()
    play(cluster, commands(PAGE, "Replacing a broker"))
