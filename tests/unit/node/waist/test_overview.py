"""The cluster as its brokers describe it: fenced brokers, partitions without a leader, shares of the ring."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_nodes import ClusterNodes, on_a_cluster, until
from memory_broker import make_topic, with_broker
from penstock.core.access import CLUSTER, Operation, Resource
from penstock.core.errors import ClusterForbidden
from penstock.core.machines.catalog.config_changes import ConfigChange, ConfigOp
from penstock.core.machines.cluster.events import PartitionSaved
from penstock.core.model import Address
from penstock.core.placement.ring import VNODES
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.runtime.slices import run_unsliced
from penstock.node.waist.overview import ClusterOverview, HealthFilter, OverviewVerbs
from penstock.node.waist.waist import Waist

ANN = Session("http", principal="User:ann")


def verbs_of(broker: Broker) -> OverviewVerbs:
    return Waist(broker).overview()


def overview(broker: Broker) -> ClusterOverview:
    return run_unsliced(verbs_of(broker).cluster(ANN))


def test_a_cluster_is_described_alike_by_all_brokers() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 6)
        await nodes.converged()
        await until(lambda: all(one.controller_id > 0 for one in nodes.brokers.values()))
        await until(lambda: all(overview(one).brokers[2].has_session for one in nodes.brokers.values()))
        first, second = overview(nodes.brokers[1]), overview(nodes.brokers[2])
        assert first._replace(broker_id=2) == second
        assert (first.broker_id, first.partitions, first.offline_partitions) == (1, 6, 0)
        assert first.metadata_index == nodes.store.end_index and first.controller_epoch > 0
        assert [(one.id, one.leaders, one.replicas) for one in first.brokers] == [
            (1, 2, 2),
            (2, 2, 2),
            (3, 2, 2),
        ]
        assert first.brokers[0].addresses["kafka"] == Address("node-1", 9092)
        assert all(one.has_session and not one.is_fenced for one in first.brokers)

    on_a_cluster(play)


def test_a_failed_broker_is_fenced_and_its_partitions_are_offline() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 6)
        await nodes.converged()
        nodes.kill(3)
        nodes.expire(3)
        await until(lambda: overview(nodes.brokers[1]).brokers[2].is_fenced)
        found = overview(nodes.brokers[1])
        failed = found.brokers[2]
        assert (failed.has_session, failed.leaders, failed.replicas) == (False, 0, 2)
        assert found.offline_partitions == 2
        verbs = verbs_of(nodes.brokers[1])
        offline = list(verbs.partitions(ANN, HealthFilter(is_offline=True)))
        assert [one.state.replica_ids for one in offline] == [[3], [3]]
        assert [one.state.leader_id for one in offline] == [-1, -1]
        assert len(list(verbs.partitions(ANN))) == 6
        shares = verbs.ring(ANN).brokers
        assert [one.is_candidate for one in shares] == [True, True, False]
        assert shares[2].share == 0 and sum(one.share for one in shares) == pytest.approx(1)

    on_a_cluster(play)


async def place(nodes: ClusterNodes, **changes: Any) -> None:
    """Give the only partition of topic `t` this state, as if it had three replicas."""
    (present,) = nodes.placed(1, "t")
    wanted = present._replace(partition_epoch=present.partition_epoch + 1, **changes)
    await nodes.brokers[1].change(lambda catalog: [PartitionSaved(wanted)])
    await nodes.converged()


def test_partitions_are_chosen_by_their_health() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 1)
        verbs, topic = verbs_of(nodes.brokers[1]), ConfigChange(ConfigOp.SET, "min.insync.replicas", "2")
        await nodes.brokers[1].change(lambda catalog: catalog.decide_alter_configs("t", [topic]))
        expected = {
            (1, 2, 3): HealthFilter(),
            (1, 2): HealthFilter(is_under_replicated=True, is_at_min_isr=True),
            (1,): HealthFilter(is_under_replicated=True, is_under_min_isr=True),
        }
        for isr, problems in expected.items():
            await place(nodes, replicas=(1, 2, 3), isr=isr, leader=1, elr=(2,) if isr == (1,) else ())
            for wanted in HealthFilter._fields:
                found = list(verbs.partitions(ANN, HealthFilter(**{wanted: True})))
                assert bool(found) == getattr(problems, wanted), (isr, wanted)
            (one,) = verbs.partitions(ANN)
            assert (one.isr_size_min, one.elr) == (2, (2,) if isr == (1,) else ())
            counted = overview(nodes.brokers[1])
            assert counted.under_replicated_partitions == problems.is_under_replicated
            assert counted.under_min_isr_partitions == problems.is_under_min_isr
        await place(nodes, isr=(), leader=-1, elr=(2,), last_leader=1)
        (one,) = verbs.partitions(ANN, HealthFilter(is_offline=True))
        assert (one.elr, one.last_known) == ((2,), (1,))

    on_a_cluster(play)


def test_the_ring_tells_load_and_bound() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 6)
        await nodes.converged()
        ring = verbs_of(nodes.brokers[2]).ring(ANN)
        assert (ring.vnodes, ring.leaders_max, ring.replicas_max) == (VNODES, 2, 2)
        assert [(one.id, one.leaders, one.replicas) for one in ring.brokers] == [
            (1, 2, 2),
            (2, 2, 2),
            (3, 2, 2),
        ]

    on_a_cluster(play)


def test_a_single_broker_describes_itself() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "t", partitions=3)
        await broker.join({"kafka": Address("here", 9092), "http": Address("here", 8080)})
        found = overview(broker)
        (own,) = found.brokers
        assert (found.controller_id, found.broker_id, found.partitions) == (own.id, own.id, 3)
        assert (own.leaders, own.replicas, own.has_session, own.is_fenced) == (3, 3, True, False)
        assert own.addresses == {"kafka": Address("here", 9092), "http": Address("here", 8080)}
        verbs = verbs_of(broker)
        assert [(one.topic, one.state.partition) for one in verbs.partitions(ANN)] == [
            ("t", 0),
            ("t", 1),
            ("t", 2),
        ]
        (share,) = verbs.ring(ANN).brokers
        assert (share.share, share.leaders, share.is_candidate) == (1, 3, True)
        assert not verbs.gossip(ANN).is_on and verbs.gossip(ANN).peers == []

    with_broker(test)


def test_a_topic_that_is_deleted_meanwhile_is_left_out() -> None:
    async def test(broker: Broker) -> None:
        for name in ("a", "b", "c"):
            await make_topic(broker, name)
        found = verbs_of(broker).partitions(ANN)
        assert next(found).topic == "a"
        await broker.change(lambda catalog: catalog.decide_delete_topic("b"))
        assert [one.topic for one in found] == ["c"]

    with_broker(test)


class OnlyTopics:
    """Allows everything except the cluster."""

    def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
        return resource != CLUSTER


class OnlyCluster:
    """Allows the cluster, and the topic `mine`."""

    def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
        return resource == CLUSTER or resource.name == "mine"


def test_permissions() -> None:
    async def test(broker: Broker) -> None:
        for name in ("mine", "others"):
            await make_topic(broker, name)
        waist = Waist(broker)
        verbs = waist.overview()
        waist.authorization.authorizer = OnlyTopics()
        for call in (
            lambda: run_unsliced(verbs.cluster(ANN)),
            lambda: verbs.ring(ANN),
            lambda: verbs.gossip(ANN),
        ):
            with pytest.raises(ClusterForbidden):
                call()
        with pytest.raises(ClusterForbidden):
            verbs.partitions(ANN)
        waist.authorization.authorizer = OnlyCluster()
        assert [one.topic for one in verbs.partitions(ANN)] == ["mine"]
        assert run_unsliced(verbs.cluster(ANN)).partitions == 2

    with_broker(test)
