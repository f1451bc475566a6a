"""Writes in a transaction that is ended after its coordinator has vouched for them, and before they are made.

The coordinator may be another broker, so that its answer takes a while; here the test gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from penstock.core.errors import BrokerError, Loading, TransactionBusy
from penstock.core.machines.transactions.transactions import Claim
from penstock.core.model import Acks, TopicPartition
from penstock.core.records.control import Marker
from penstock.core.session import Session
from penstock.doors.kafka.transactions import produce_code_of
from penstock.node.coordinators.committed import Committer
from penstock.node.coordinators.groups import TOPIC as GROUPS_TOPIC
from penstock.node.replicas.offset_waits import Settled
from penstock.node.runtime.slices import run_unsliced
from penstock.node.waist.committed import OffsetEntry, Outcomes
from penstock.node.waist.produce import InTransaction, NewBatch, Produced
from penstock.node.waist.routes import Routes
from penstock.node.waist.transactions import OffsetCommit
from penstock.wire.kafka import ErrorCode
from transaction_node import transactional_batch

from .conftest import Node

SESSION = Session("kafka")
BY = Claim(7, 0)
PAY = "pay"


class SlowCoordinator:
    """Vouches for everything, when it is told to."""

    def __init__(self) -> None:
        self._asked: list[Settled] = []

    def admit(
        self, transactional_id: str, by: Claim, places: Sequence[TopicPartition], admitted: Settled, **_: bool
    ) -> None:
        self._asked.append(admitted)

    def answer(self) -> None:
        self._asked.pop()(None)


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> SlowCoordinator:
    made = SlowCoordinator()
    monkeypatch.setattr(Routes, "admission", lambda self, transactional_id: made)
    return made


def hold() -> Callable[[], None]:
    return lambda: None


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_batch_is_not_appended_after_the_marker(
    node: Node, coordinator: SlowCoordinator, is_ended: bool
) -> None:
    node.make_topic("orders", 1)
    outcomes: list[Produced] = []

    def done(produced: Produced | BaseException) -> None:
        assert isinstance(produced, Produced), produced
        outcomes.append(produced)

    async def write() -> None:
        partition = node.broker.partition("orders", 0)
        batch = NewBatch("orders", 0, memoryview(transactional_batch(BY, 0, [b"x"])))
        within = InTransaction(PAY, may_add=False)
        node.waist.produce.append_all(SESSION, [batch], Acks.ALL, within, hold, done)
        assert len(partition.guards) == 1
        if is_ended:
            place = TopicPartition("orders", 0)
            await node.broker.markers.end(
                place, *BY, Marker(is_commit=False, coordinator_epoch=0), is_bumped=False
            )
        end_offset = partition.end_offset
        coordinator.answer()
        assert partition.end_offset == end_offset + (not is_ended) and len(partition.guards) == 0
        await partition.sync_dirty()
        assert partition.last_stable_offset == (end_offset if is_ended else 0), "nobody would end it"

    node.run(write())
    ((outcome,), doubt) = outcomes[0]
    assert isinstance(outcome, TransactionBusy) == is_ended
    if is_ended:
        assert outcome is doubt
        assert produce_code_of(11, outcome) == ErrorCode.NOT_ENOUGH_REPLICAS, "which every client retries"


@pytest.mark.parametrize("is_ended", [False, True])
def test_an_offset_is_not_pended_after_the_marker(
    node: Node, coordinator: SlowCoordinator, is_ended: bool
) -> None:
    node.make_topic("orders", 1)
    answers: list[BrokerError | None] = []

    def answered(outcomes: Outcomes) -> None:
        answers.extend(outcomes.errors)

    def crashed(defect: Exception) -> None:
        raise defect

    async def commit() -> None:
        await node.broker.group_coordinator.groups.host.open()
        await node.broker.group_coordinator.loaded()
        shard = node.broker.group_coordinator.groups.shard_of("g")
        entry = OffsetEntry("orders", 0, 5, -1, "")
        wanted = OffsetCommit(PAY, "g", BY, Committer(), [entry], may_add=False)
        run_unsliced(node.waist.transactions.commit_offsets(SESSION, wanted, hold, answered, crashed))
        if is_ended:
            place = TopicPartition(GROUPS_TOPIC, shard.partition.index)
            await node.broker.markers.end(
                place, *BY, Marker(is_commit=False, coordinator_epoch=0), is_bumped=False
            )
        coordinator.answer()
        await shard.partition.sync_dirty()
        assert shard.roster.offsets.has_pended("g") is not is_ended and len(shard.partition.guards) == 0

    node.run(commit())
    assert [isinstance(one, Loading) for one in answers] == [is_ended]
