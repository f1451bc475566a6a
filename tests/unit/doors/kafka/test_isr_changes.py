"""AlterPartition: what takes effect, and Kafka's error codes in Kafka's order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cluster_nodes import ClusterNodes, on_a_cluster
from penstock.core.machines.cluster.events import PartitionSaved
from penstock.core.session import Session, broker_principal
from penstock.doors.kafka.isr_changes import IsrChangeHandlers
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ErrorCode, messages

LEADER = 2


async def stage(nodes: ClusterNodes, **changes: Any) -> None:
    """A partition on three brokers that broker 2 leads in leader epoch 5, partition epoch 7."""
    await nodes.create(1, "t", 1)
    (present,) = nodes.placed(1, "t")
    wanted = present._replace(
        replicas=(1, 2, 3), isr=(1, 2), leader=LEADER, leader_epoch=5, partition_epoch=7
    )._replace(**changes)
    await nodes.brokers[1].change(lambda catalog: [PartitionSaved(wanted)])
    await nodes.converged()


async def alter(
    nodes: ClusterNodes,
    *isr: int,
    version: int = 3,
    sender: int = LEADER,
    session: Session | None = None,
    **fields: Any,
) -> messages.AlterPartitionResponse:
    """Ask broker 1, as the leader would; fields that are given replace those of a correct request."""
    request, cluster = messages.AlterPartitionRequest, nodes.brokers[1].catalog.cluster
    epochs = {one.broker_id: one.epoch for one in cluster.brokers} | fields.pop("epochs", {})
    members: dict[str, Any] = {"new_isr": list(isr)}
    if version > 2:
        members = {
            "new_isr_with_epochs": [
                request.BrokerState(broker_id=one, broker_epoch=epochs.get(one, -1)) for one in isr
            ]
        }
    broker_epoch = fields.pop("broker_epoch", epochs.get(sender, -1))
    topic_id = fields.pop("topic_id", nodes.brokers[1].catalog.topic("t").id)
    content: dict[str, Any] = {"partition_index": 0, "leader_epoch": 5, "partition_epoch": 7} | fields
    partition = request.PartitionData(**content, **members)
    body = request(
        broker_id=sender,
        broker_epoch=broker_epoch,
        topics=[request.TopicData(topic_id=topic_id, partitions=[partition])],
    )
    caller = session or Session("kafka").with_principal(broker_principal(sender))
    call: Any = SimpleNamespace(session=caller, version=version)
    return await IsrChangeHandlers(Waist(nodes.brokers[1])).alter_partition(call, body)


def outcome(answer: messages.AlterPartitionResponse) -> messages.AlterPartitionResponse.PartitionData:
    assert answer.error_code == 0
    (topic,) = answer.topics
    (partition,) = topic.partitions
    return partition


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_changes_the_isr(version: int) -> None:
    async def play(nodes: ClusterNodes) -> None:
        await stage(nodes)
        found = outcome(await alter(nodes, 3, 1, 2, version=version))
        assert (found.error_code, found.leader_id, found.leader_epoch) == (0, LEADER, 5)
        assert (found.isr, found.partition_epoch) == ([1, 2, 3], 8)
        assert nodes.placed(1, "t")[0].isr == (1, 2, 3)

    on_a_cluster(play)


@pytest.mark.parametrize(
    ("isr", "fields", "code"),
    [
        ((1, 2), {"leader_epoch": 6}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"partition_epoch": 8, "leader_epoch": 4}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": 4, "partition_epoch": 6}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2), {"sender": 1, "partition_epoch": 6}, ErrorCode.INVALID_REQUEST),
        ((9,), {"partition_epoch": 6}, ErrorCode.INVALID_UPDATE_VERSION),
        ((2, 9), {}, ErrorCode.INVALID_REQUEST),
        ((2, 2), {}, ErrorCode.INVALID_REQUEST),
        ((1, 3), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ((2, 3), {"epochs": {3: 1_000}}, ErrorCode.INELIGIBLE_REPLICA),
        ((1, 2), {"partition_index": 3}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((1, 2), {"topic_id": b"x" * 16}, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_what_a_partition_answers(isr: tuple[int, ...], fields: dict[str, Any], code: ErrorCode) -> None:
    async def play(nodes: ClusterNodes) -> None:
        await stage(nodes)
        assert outcome(await alter(nodes, *isr, **fields)).error_code == code
        assert nodes.placed(1, "t")[0].partition_epoch == 7

    on_a_cluster(play)


def test_a_leader_that_is_not_part_of_the_new_replicas_is_told_that_another_one_leads() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await stage(nodes, replicas=(1, 3, 2), isr=(1, 2), adding=(3,), removing=(2,))
        found = outcome(await alter(nodes, 1, 2, 3))
        assert (found.error_code, found.isr) == (ErrorCode.NEW_LEADER_ELECTED, [])
        assert nodes.placed(1, "t")[0].replicas == (1, 3)

    on_a_cluster(play)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"broker_epoch": 1_000}, ErrorCode.STALE_BROKER_EPOCH),
        ({"sender": 9}, ErrorCode.STALE_BROKER_EPOCH),
        ({"session": Session("kafka")}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (
            {"session": Session("kafka").with_principal(broker_principal(1))},
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ),
    ],
)
def test_who_may_not_ask(fields: dict[str, Any], code: ErrorCode) -> None:
    async def play(nodes: ClusterNodes) -> None:
        await stage(nodes)
        answer = await alter(nodes, 1, 2, 3, **fields)
        assert (answer.error_code, answer.topics) == (code, [])

    on_a_cluster(play)
