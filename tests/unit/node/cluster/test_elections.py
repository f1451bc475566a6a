"""Elections are counted by the broker that becomes leader; those through the ELR are clean."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cluster_play import ClusterPlay
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.election import ElectionKind
from penstock.core.machines.cluster.events import PartitionSaved
from penstock.core.machines.cluster.partition_state import decide_elect
from penstock.node.cluster.elections import Elections


class Counted(ClusterPlay):
    """A cluster of three brokers, and what each of them counts."""

    def __init__(self) -> None:
        self.by_broker: dict[int, Elections] = {}
        super().__init__(3)
        self.create("orders", [1, 2, 3], isr_size_min=2)
        self.by_broker = {one: Elections(self.catalog, one) for one in (1, 2, 3)}
        for one in self.by_broker.values():
            one.start()

    def run(self, events: Sequence[Event]) -> Sequence[Event]:
        for event in super().run(events):
            for one in self.by_broker.values():
                if isinstance(event, PartitionSaved):
                    one.follow(event.partition)
        return events

    @property
    def counts(self) -> list[tuple[int, int]]:
        return [(one.clean, one.unclean) for one in self.by_broker.values()]


def test_the_new_leader_counts() -> None:
    scene = Counted()
    scene.fence(1)
    assert scene.counts == [(0, 0), (1, 0), (0, 0)]
    scene.create("new", [3, 1, 2])
    assert scene.counts == [(0, 0), (1, 0), (0, 0)], "a new partition needs no election"


def test_an_election_through_the_elr_is_clean(caplog: pytest.LogCaptureFixture) -> None:
    """M17."""
    scene = Counted()
    for broker_id in (3, 2, 1):
        scene.fence(broker_id)
    assert scene.partition("orders").elr == (1, 2)
    scene.unfence(2)
    assert scene.counts == [(0, 0), (1, 0), (0, 0)]
    assert "records may be missing" not in caplog.text


def test_an_unclean_election_is_counted_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    scene = Counted()
    scene.fence(3)
    for broker_id in (1, 2):
        scene.fence(broker_id)
    scene.unfence(3)
    place = scene.partition("orders").id
    scene.run(decide_elect(scene.cluster, place, ElectionKind.UNCLEAN))
    assert scene.counts == [(0, 0), (1, 0), (0, 1)]
    assert "partition 0 of orders although records may be missing" in caplog.text
