"""Verbs under some permissions: what was named is refused, what was not is left out, and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from log_samples import filled_batch
from manual_ports import turns
from memory_broker import make_topic, until, with_broker
from penstock.core.access import (
    CLUSTER,
    Operation,
    Resource,
    group_resource,
    topic_resource,
    transactional_id_resource,
)
from penstock.core.errors import (
    BrokerError,
    ClusterForbidden,
    DiskFailed,
    GroupForbidden,
    TopicForbidden,
    TransactionalIdForbidden,
    UnknownTopicId,
)
from penstock.core.model import Acks, Isolation, NewRecord, TopicPartition
from penstock.core.session import ANONYMOUS, Session, broker_principal
from penstock.node.broker import Broker
from penstock.node.runtime.slices import run_unsliced
from penstock.node.waist.authorization import require_peer
from penstock.node.waist.committed import NO_RETENTION, Committer, OffsetEntry, Outcomes
from penstock.node.waist.coordinators import CoordinatorKind
from penstock.node.waist.groups import JOIN_EPOCH, NOTHING, MemberHeartbeat
from penstock.node.waist.positions import Edge
from penstock.node.waist.produce import AppendedBatch, InTransaction, NewBatch
from penstock.node.waist.topics import NO_ID, CreatedTopic, Growth, NewTopic
from penstock.node.waist.transactions import Claim, TransactionFilter
from penstock.node.waist.waist import Waist

ANN = Session("kafka", principal="User:ann")
MINE, OTHERS = "mine", "others"
Test = Callable[[Broker, Waist], Coroutine[Any, Any, None]]


class Granted:
    """Allows what it was made with, to Ann."""

    def __init__(self, *granted: tuple[Operation, Resource]) -> None:
        self._granted = set(granted)

    def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
        assert session is ANN
        return (operation, resource) in self._granted


def grant(waist: Waist, *granted: tuple[Operation, Resource]) -> None:
    waist.authorization.authorizer = Granted(*granted)


def play(test: Test) -> None:
    async def main(broker: Broker) -> None:
        await make_topic(broker, MINE)
        await make_topic(broker, OTHERS)
        await test(broker, Waist(broker))

    with_broker(main)


def kinds(outcomes: list[Any]) -> list[type]:
    return [type(one) for one in outcomes]


def test_a_refusal_names_who_and_what() -> None:
    async def test(broker: Broker, waist: Waist) -> None:
        grant(waist)
        try:
            waist.topics.get(ANN, MINE)
        except TopicForbidden as error:
            assert str(error) == "User:ann is not authorized to DESCRIBE TOPIC 'mine'"
        else:
            raise AssertionError("it was allowed")

    play(test)


def test_topics_that_may_not_be_described_are_left_out() -> None:
    async def test(broker: Broker, waist: Waist) -> None:
        grant(waist, (Operation.DESCRIBE, topic_resource(MINE)))
        assert [one.name for one in waist.topics.all(ANN)] == [MINE]
        assert waist.topics.is_missing(ANN, "new") is False, "it may exist for all Ann knows"
        assert waist.topics.id_of(ANN, OTHERS) is None
        assert waist.topics.get(ANN, broker.catalog.topic(MINE).id).name == MINE
        broker.partition(MINE, 0).fail(DiskFailed("gone"))
        broker.partition(OTHERS, 0).fail(DiskFailed("gone"))
        assert waist.cluster.readiness(ANN).offline_partitions == ["mine-0"]

    play(test)


def test_only_those_who_may_describe_the_cluster_are_told_what_they_may_do_to_it() -> None:
    async def test(broker: Broker, waist: Waist) -> None:
        create, describe = (Operation.CREATE, CLUSTER), (Operation.DESCRIBE, CLUSTER)
        grant(waist, create)
        assert list(waist.authorization.allowed_operations(ANN, CLUSTER)) == []
        grant(waist, create, describe, (Operation.READ, topic_resource(MINE)))
        assert list(waist.authorization.allowed_operations(ANN, CLUSTER)) == [
            Operation.CREATE,
            Operation.DESCRIBE,
        ]
        assert list(waist.authorization.allowed_operations(ANN, topic_resource(MINE))) == [Operation.READ]

    play(test)


def test_a_topic_is_created_by_whoever_may_create_it_or_any() -> None:
    async def test(broker: Broker, waist: Waist) -> None:
        grant(waist, (Operation.CREATE, topic_resource("a")))
        outcomes = await waist.topics.create_all(ANN, [NewTopic("a"), NewTopic("b")])
        assert kinds(outcomes) == [CreatedTopic, TopicForbidden]
        assert isinstance(outcomes[0], CreatedTopic) and outcomes[0].entries is None, "no DESCRIBE_CONFIGS"
        grant(waist, (Operation.CREATE, CLUSTER), (Operation.DESCRIBE_CONFIGS, topic_resource("b")))
        (outcome,) = await waist.topics.create_all(ANN, [NewTopic("b")])
        assert isinstance(outcome, CreatedTopic) and outcome.entries
        assert await waist.topics.ensure(ANN, NewTopic("b")) is False

    play(test)


def test_deleting_by_id_tells_no_name_that_may_not_be_known() -> None:
    async def test(broker: Broker, waist: Waist) -> None:
        topic_id = broker.catalog.topic(OTHERS).id
        grant(waist, (Operation.DELETE, topic_resource(MINE)))
        by_id, by_name, unknown = await waist.topics.delete_all(ANN, [topic_id, MINE, b"?" * 16])
        assert (by_id.name, by_id.id, type(by_id.error)) == (None, topic_id, TopicForbidden)
        assert by_name.error is None and by_name.name == MINE
        assert type(unknown.error) is UnknownTopicId
        grant(waist, (Operation.DESCRIBE, topic_resource(OTHERS)))
        by_id, by_name = await waist.topics.delete_all(ANN, [topic_id, OTHERS])
        assert [by_id.name, by_name.name] == [OTHERS, OTHERS] and by_name.id == topic_id
        assert kinds([by_id.error, by_name.error]) == [TopicForbidden] * 2
        (by_name,) = await waist.topics.delete_all(ANN, ["absent"])
        assert (by_name.name, by_name.id, type(by_name.error)) == ("absent", NO_ID, TopicForbidden)

    play(test)


def test_growing_and_altering_need_different_permissions() -> None:
    async def test(broker: Broker, waist: Waist) -> None:
        grant(waist, (Operation.ALTER, topic_resource(MINE)))
        assert kinds(await waist.topics.grow_all(ANN, [Growth(MINE, 2), Growth(OTHERS, 2)])) == [
            type(None),
            TopicForbidden,
        ]
        await waist.topics.alter(ANN, MINE, 3, [])
        assert broker.catalog.topic(MINE).partition_count == 3
        grant(waist, (Operation.ALTER_CONFIGS, topic_resource(MINE)))
        await waist.topics.alter(ANN, MINE, None, [])
        try:
            await waist.topics.alter(ANN, MINE, 4, [])
        except TopicForbidden:
            return
        raise AssertionError("ALTER was not asked for")

    play(test)


def test_offsets_of_topics_that_may_not_be_read_are_refused_one_by_one() -> None:
    async def test(broker: Broker, waist: Waist) -> None:
        await waist.coordinators.open(ANN, CoordinatorKind.GROUP, ["g"])
        granted = [(Operation.READ, group_resource("g")), (Operation.READ, topic_resource(MINE))]
        grant(waist, *granted)
        outcomes: list[Outcomes] = []
        entries = [OffsetEntry(MINE, 0, 5, -1, ""), OffsetEntry(OTHERS, 0, 5, -1, "")]
        run_unsliced(waist.committed.commit(ANN, "g", Committer(), entries, NO_RETENTION, outcomes.append))
        await until(lambda: outcomes)
        assert kinds(outcomes[0].errors) == [type(None), TopicForbidden] and outcomes[0].failure is None
        grant(waist, (Operation.DESCRIBE, group_resource("g")), (Operation.DESCRIBE, topic_resource(MINE)))
        found: list[Any] = []
        named = [TopicPartition(MINE, 0), TopicPartition(OTHERS, 0)]
        for wanted in (named, None):
            run_unsliced(
                waist.committed.fetch(ANN, "g", Committer(), wanted, found.append, require_stable=False)
            )
        await until(lambda: len(found) == 2)
        assert found[0][named[0]].offset == 5 and type(found[0][named[1]]) is TopicForbidden
        assert list(found[1]) == [named[0]], "of all offsets only those that may be known"
        grant(waist)
        run_unsliced(waist.committed.commit(ANN, "g", Committer(), entries, NO_RETENTION, outcomes.append))
        assert kinds(outcomes[1].errors) == [GroupForbidden] * 2
        assert type(outcomes[1].failure) is GroupForbidden

    play(test)


def test_a_member_may_subscribe_to_topics_that_it_may_know_of() -> None:
    async def test(broker: Broker, waist: Waist) -> None:
        await waist.coordinators.open(ANN, CoordinatorKind.GROUP, ["g"])
        read = (Operation.READ, group_resource("g"))
        answers: list[Any] = []

        async def join(*topics: str) -> Any:
            beat = MemberHeartbeat(
                member_id="m", epoch=JOIN_EPOCH, rebalance_ms=1_000, topic_names=topics, owned=NOTHING
            )
            waist.groups.beat(ANN, "g", beat, answers.append)
            await until(lambda: answers)
            return answers.pop()

        grant(waist, read, (Operation.DESCRIBE, topic_resource(MINE)))
        assert isinstance(await join(MINE, OTHERS), TopicForbidden)
        assert not isinstance(await join(MINE), BrokerError)
        grant(waist, (Operation.DESCRIBE, group_resource("g")))
        waist.groups.describe_consumer(ANN, "g", answers.append)
        await until(lambda: answers)
        assert isinstance(answers.pop(), TopicForbidden), "the group reads a topic that Ann may not know of"
        assert [one.group_id for one in run_unsliced(waist.groups.all(ANN))] == ["g"]
        grant(waist)
        assert run_unsliced(waist.groups.all(ANN)) == []

    play(test)


def test_nobody_opens_a_coordinator_without_a_permission() -> None:
    async def test(broker: Broker, waist: Waist) -> None:
        grant(waist)
        await waist.coordinators.open(ANN, CoordinatorKind.GROUP, ["g"])
        assert not waist.coordinators.are_ready(ANN, CoordinatorKind.GROUP)
        grant(waist, (Operation.DESCRIBE, transactional_id_resource("t")))
        await waist.coordinators.open(ANN, CoordinatorKind.TRANSACTION, ["s", "t"])
        assert waist.coordinators.are_ready(ANN, CoordinatorKind.TRANSACTION)

    play(test)


def test_transactions() -> None:
    async def test(broker: Broker, waist: Waist) -> None:
        write = (Operation.WRITE, transactional_id_resource("t"))
        grant(waist, write, (Operation.WRITE, topic_resource(MINE)))
        claim = Claim(*await waist.transactions.init_producer(ANN, "t", 1_000, Claim(-1, -1)))
        mine, others = TopicPartition(MINE, 0), TopicPartition(OTHERS, 0)
        add = waist.transactions.add_partitions
        refused = await add(ANN, "t", claim, [mine, others], is_v2=False)
        assert list(refused) == [others] and type(refused[others]) is TopicForbidden
        assert broker.transactions.get("t").partitions == (), "all or nothing"
        assert await add(ANN, "t", claim, [mine], is_v2=False) == {}
        assert waist.transactions.all(ANN, TransactionFilter()) == []
        for verb in (
            add(ANN, "u", claim, [mine], is_v2=False),
            waist.transactions.end(ANN, "u", claim, commit=True, is_v2=False),
            waist.transactions.init_producer(ANN, "u", 1_000, Claim(-1, -1)),
        ):
            try:
                await verb
            except TransactionalIdForbidden:
                continue
            raise AssertionError(verb)
        try:
            await waist.transactions.init_producer(ANN, None, 0, Claim(-1, -1))
        except ClusterForbidden:
            return
        raise AssertionError("IDEMPOTENT_WRITE was not asked for")

    play(test)


def test_batches_of_a_transaction_need_its_id() -> None:
    async def test(broker: Broker, waist: Waist) -> None:
        grant(waist, (Operation.WRITE, topic_resource(MINE)))
        produced: list[Any] = []
        batches = [NewBatch(MINE, 0, memoryview(filled_batch())), NewBatch(OTHERS, 0, None)]
        within = InTransaction("t", may_add=True)
        hold = not_held
        waist.produce.append_all(ANN, batches, Acks.ALL, within, hold, produced.append)
        assert kinds(produced[0].outcomes) == [TransactionalIdForbidden] * 2 and produced[0].doubt is None
        waist.produce.append_all(ANN, batches, Acks.ALL, None, hold, produced.append)
        assert kinds(produced[1].outcomes) == [AppendedBatch, TopicForbidden]

    play(test)


def not_held() -> Callable[[], None]:
    raise AssertionError("nothing has to wait")


def test_a_topic_to_publish_to_is_created_for_those_who_may() -> None:
    async def test(broker: Broker, waist: Waist) -> None:
        publisher, outcomes = waist.publisher(), list[Any]()
        record = NewRecord(None, b"x")
        grant(waist, (Operation.WRITE, topic_resource("new")))
        publisher.publish(ANN, "new", record, outcomes.append, None, lambda: lambda: None)
        await until(lambda: outcomes)
        assert isinstance(outcomes.pop(), TopicForbidden) and broker.catalog.find("new") is None
        grant(waist, (Operation.WRITE, topic_resource("new")), (Operation.CREATE, topic_resource("new")))
        publisher.publish(ANN, "new", record, outcomes.append, None, lambda: lambda: None)
        await until(lambda: outcomes)
        assert not isinstance(outcomes.pop(), BrokerError)
        publisher.publish(ANN, MINE, record, outcomes.append, None, lambda: lambda: None)
        await turns()
        assert isinstance(outcomes.pop(), TopicForbidden)

    play(test)


def test_positions_need_less_than_records() -> None:
    async def test(broker: Broker, waist: Waist) -> None:
        grant(waist, (Operation.DESCRIBE, topic_resource(MINE)))
        found = waist.positions.find(ANN, MINE, 0, Edge.LATEST, Isolation.READ_COMMITTED)
        assert found is not None and found.offset == 0
        try:
            waist.fetch.read(ANN, MINE, 0, 0, 1, Isolation.READ_COMMITTED, -1)
        except TopicForbidden:
            pass
        else:
            raise AssertionError("READ was not asked for")
        grant(waist, (Operation.CLUSTER_ACTION, CLUSTER))
        assert waist.positions.epoch_end(ANN, MINE, 0, 0, -1)[1] >= -1, "brokers ask for what they replicate"

    play(test)


def test_brokers_of_the_cluster_may_do_everything() -> None:
    async def main(broker: Broker, waist: Waist) -> None:
        grant(waist)
        peer = Session("kafka", broker_principal(2))
        waist.authorization.authorize(peer, Operation.WRITE, topic_resource(MINE))
        waist.transactions.authorize_broker(peer)

    play(main)


def test_calls_between_brokers_are_refused_to_everybody_else() -> None:
    require_peer(Session("kafka", broker_principal(2)))
    for principal in (ANONYMOUS, "User:ann", "User:Broker:2", ""):
        with pytest.raises(ClusterForbidden, match="is not a broker of this cluster"):
            require_peer(Session("kafka", principal))
