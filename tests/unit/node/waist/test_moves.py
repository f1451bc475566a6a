"""Rebalance, drain and their undoing as verbs: what is proposed, what is started, and who may ask."""

from __future__ import annotations

import pytest

from cluster_nodes import ClusterNodes, on_a_cluster, until
from memory_broker import make_topic, with_broker
from penstock.core.access import Operation, Resource
from penstock.core.errors import ClusterForbidden, NoEligibleLeader, SingleBroker, UnknownBroker
from penstock.core.machines.cluster.reassignment import decide_reassign
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.waist.moves import MoveVerbs
from penstock.node.waist.waist import Waist

ANN = Session("http", principal="User:ann")


def verbs_of(nodes: ClusterNodes, broker_id: int = 1) -> MoveVerbs:
    return Waist(nodes.brokers[broker_id]).moves()


async def gather(nodes: ClusterNodes, partitions: int) -> None:
    """A topic whose partitions are all to go to broker 1. No door serves, so none arrives."""
    await nodes.create(1, "t", partitions)
    for one in nodes.placed(1, "t"):
        place = one.id
        await nodes.brokers[1].change(
            lambda catalog, place=place: decide_reassign(catalog.cluster, place, [1])
        )
    await nodes.converged()


def test_a_dry_run_changes_nothing() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 6)
        await nodes.converged()
        index = nodes.store.end_index
        assert await verbs_of(nodes).rebalance(ANN, is_dry_run=True) == [], "it is balanced"
        planned = await verbs_of(nodes).drain(ANN, 2, is_dry_run=True)
        assert [(one.topic, one.before) for one in planned] == [("t", (2,))] * 2
        assert all(one.after in ((1,), (3,)) for one in planned)
        assert nodes.store.end_index == index and not nodes.brokers[1].catalog.cluster.broker(2).is_draining

    on_a_cluster(play)


def test_draining_starts_moves_and_stops_them_again() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 6)
        verbs = verbs_of(nodes)
        planned = await verbs.drain(ANN, 2, is_dry_run=False)
        await until(lambda: len(verbs.ongoing(ANN)) == len(planned))
        ongoing = verbs.ongoing(ANN)
        assert [(one.partition, one.before, one.after) for one in ongoing] == [
            (one.partition, one.before, one.after) for one in planned
        ]
        assert nodes.brokers[1].catalog.cluster.broker(2).is_draining
        assert await verbs.drain(ANN, 2, is_dry_run=False) == [], "all of it is under way"
        await verbs.undrain(ANN, 2)
        assert verbs.ongoing(ANN) == [] and not nodes.brokers[1].catalog.cluster.broker(2).is_draining

    on_a_cluster(play)


def test_a_broker_that_the_others_cannot_replace_is_not_drained() -> None:
    """The wait for it would never end."""

    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 1)
        await nodes.converged()
        (placed,) = nodes.placed(1, "t")
        await nodes.brokers[1].change(
            lambda catalog: decide_reassign(
                catalog.cluster, placed.id, [*placed.replicas, *{1, 2, 3} - {*placed.replicas}]
            )
        )
        await nodes.converged()
        for is_dry_run in (True, False):
            with pytest.raises(
                NoEligibleLeader, match="t would have 3 replicas on 2 brokers: start another broker"
            ):
                await verbs_of(nodes).drain(ANN, 2, is_dry_run=is_dry_run)
        assert not nodes.brokers[1].catalog.cluster.broker(2).is_draining

    on_a_cluster(play)


def test_who_takes_part_knows_how_far_a_move_is() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 3)
        await nodes.converged()
        (moved,) = await verbs_of(nodes).drain(ANN, 2, is_dry_run=False)
        await until(lambda: all(verbs_of(nodes, one).ongoing(ANN) for one in (1, 2, 3)))
        (target,) = moved.after
        other = ({1, 3} - {target}).pop()
        await until(lambda: verbs_of(nodes, target).ongoing(ANN)[0].is_copying is not None)
        (at_target,), (at_source,), (at_other,) = (
            verbs_of(nodes, one).ongoing(ANN) for one in (target, 2, other)
        )
        assert (at_target.copied_bytes, at_target.bytes_left) == (0, None)
        assert (at_source.copied_bytes, at_source.bytes_left) == (None, 0)
        assert (at_other.copied_bytes, at_other.bytes_left, at_other.leader_id) == (None, None, 2)

    on_a_cluster(play)


def test_what_is_refused() -> None:
    async def play(nodes: ClusterNodes) -> None:
        verbs = verbs_of(nodes)
        with pytest.raises(UnknownBroker):
            await verbs.drain(ANN, 9, is_dry_run=True)
        await verbs.drain(ANN, 2, is_dry_run=False)
        with pytest.raises(NoEligibleLeader, match="no other broker"):
            await verbs.drain(ANN, 1, is_dry_run=False)

    on_a_cluster(play, brokers=2)


def test_a_single_broker_moves_nothing() -> None:
    async def main(broker: Broker) -> None:
        await make_topic(broker, "t")
        verbs = Waist(broker).moves()
        assert verbs.ongoing(ANN) == []
        with pytest.raises(SingleBroker, match="alone"):
            await verbs.rebalance(ANN, is_dry_run=True)

    with_broker(main)


class Nobody:
    """Allows nothing."""

    def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
        return False


def test_who_may_not_alter_the_cluster_moves_nothing() -> None:
    async def main(broker: Broker) -> None:
        waist = Waist(broker)
        waist.authorization.authorizer = Nobody()
        verbs = waist.moves()
        with pytest.raises(ClusterForbidden):
            verbs.ongoing(ANN)
        for work in (verbs.rebalance(ANN, is_dry_run=True), verbs.undrain(ANN, 1)):
            with pytest.raises(ClusterForbidden):
                await work

    with_broker(main)
