"""Brokers that join, fall silent, come back and leave: who leads what, and who is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

import pytest

from cluster_nodes import ClusterNodes, on_a_cluster, until
from penstock.core.errors import DuplicateBroker, LeaderNotAvailable, NotLeader, TornSegment, WrongCluster
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.brokers import decide_fence
from penstock.core.machines.cluster.events import BrokerSaved
from penstock.core.machines.cluster.values import NO_LEADER, BrokerRegistration
from penstock.node.broker import start_broker
from penstock.node.cluster.catalog_host import CatalogHost
from penstock.node.cluster.membership import ClusterMembership, MemberProfile
from penstock.node.runtime.runtime import Runtime
from penstock.node.settings import Settings
from penstock.node.topic_creation import NewTopic
from sim.loop import SimLoop
from sim.metadata_model import ModelMetadataLog, ModelStore


def leaders(nodes: ClusterNodes, topic: str = "t") -> list[int]:
    """The leaders of a topic's partitions as broker 1 knows them."""
    return [one.leader for one in nodes.placed(1, topic)]


def test_partitions_are_spread_and_led_where_they_are_placed() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(2, "t", 6)
        await nodes.converged()
        assert sorted(leaders(nodes)) == [1, 1, 2, 2, 3, 3]
        for index, leader in enumerate(leaders(nodes)):
            for broker_id, broker in nodes.brokers.items():
                if broker_id == leader:
                    assert broker.partition("t", index).is_leader
                else:
                    with pytest.raises(NotLeader, match=f"broker {leader}") as refused:
                        broker.partition("t", index)
                    assert refused.value.leader_id == leader and refused.value.leader_epoch >= 0

    on_a_cluster(play)


def holder(nodes: ClusterNodes) -> int:
    """The controller, if all brokers agree."""
    found = {one.controller_id for one in nodes.brokers.values()}
    return found.pop() if len(found) == 1 else -1


def test_one_broker_is_the_controller_and_another_takes_over() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await until(lambda: holder(nodes) != -1)
        first = holder(nodes)
        assert [one.is_controller for one in nodes.brokers.values()].count(True) == 1
        await nodes.stop(first)
        await until(lambda: holder(nodes) not in (-1, first))
        await nodes.start(first)
        await until(lambda: holder(nodes) != -1)
        assert holder(nodes) != first, "it does not take the role back"

    on_a_cluster(play)


def test_partitions_of_a_killed_broker_have_no_leader_until_it_is_back_with_its_records() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 3)
        await nodes.converged()
        index = leaders(nodes).index(3)
        epoch = nodes.placed(1, "t")[index].leader_epoch
        nodes.kill(3)
        nodes.expire(3)
        await until(lambda: leaders(nodes)[index] == NO_LEADER)
        with pytest.raises(LeaderNotAvailable):
            nodes.brokers[1].partition("t", index)
        assert sorted(one for one in leaders(nodes) if one != NO_LEADER) == [1, 2], "the others go on"
        await nodes.start(3)
        await nodes.converged()
        assert leaders(nodes)[index] == 3 and nodes.placed(1, "t")[index].leader_epoch > epoch
        assert nodes.brokers[3].partition("t", index).leader_epoch == nodes.placed(1, "t")[index].leader_epoch

    on_a_cluster(play)


def test_a_killed_broker_ends_the_session_of_its_last_run_and_fences_it() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 3)
        await nodes.converged()
        earlier = nodes.brokers[1].catalog.cluster.broker(2)
        nodes.kill(2)
        before_s = asyncio.get_running_loop().time()
        await nodes.start(2)
        assert asyncio.get_running_loop().time() - before_s < 1.0, "it did not wait until the session expired"
        await nodes.converged()
        assert sorted(leaders(nodes)) == [1, 2, 3]
        assert nodes.brokers[1].catalog.cluster.broker(2).epoch > earlier.epoch

    on_a_cluster(play)


def test_a_killed_controller_that_is_back_lets_another_take_over_at_once() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await until(lambda: holder(nodes) != -1)
        first = holder(nodes)
        nodes.kill(first)
        before_s = asyncio.get_running_loop().time()
        await nodes.start(first)
        await until(lambda: holder(nodes) not in (-1, first))
        assert asyncio.get_running_loop().time() - before_s < 1.0, "its session did not have to expire"

    on_a_cluster(play)


def test_a_broker_that_lost_its_session_opens_another_and_leads_on() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 3)
        await nodes.converged()
        broker, index = nodes.brokers[2], leaders(nodes).index(2)
        assert broker.membership is not None
        session = next(one for one in nodes.store.sessions.live if one.name == "broker-2")
        nodes.expire(2)
        await until(lambda: not broker.membership.has_session)
        assert broker.partition("t", index).is_leader, "the store may be out of reach for all"
        await until(lambda: broker.catalog.cluster.broker(2).session != session.number)
        await until(lambda: broker.membership.has_session and broker.membership.is_active)
        await nodes.converged()
        assert broker.partition("t", index).is_leader and leaders(nodes)[index] == 2
        assert session not in nodes.store.sessions.live

    on_a_cluster(play)


def test_a_broker_that_others_fenced_ceases_and_asks_to_be_unfenced() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 3)
        await nodes.converged()
        broker, index = nodes.brokers[2], leaders(nodes).index(2)
        partition = broker.partition("t", index)
        epoch, roles = partition.leader_epoch, list[bool]()
        partition.add_listener(lambda: roles.append(partition.is_leader))
        registered = broker.catalog.cluster.broker(2)
        await nodes.brokers[1].change(lambda catalog: decide_fence(catalog.cluster, 2, registered.epoch))
        await nodes.converged()
        await until(lambda: leaders(nodes)[index] == 2)
        await nodes.converged()
        assert False in roles, "waiting calls heard of it"
        assert partition.is_leader and partition.leader_epoch > epoch

    on_a_cluster(play)


def test_an_empty_directory_does_not_take_the_place_of_one_with_partitions() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 3)
        await nodes.stop(3)
        twin = ClusterNodes(nodes._loop, nodes.store, "twin")
        with pytest.raises(
            TornSegment, match=r"new and empty, but no other broker has all records of t-\d: start"
        ):
            await twin.start(3)
        await nodes.start(3)
        await nodes.converged()
        assert sorted(leaders(nodes)) == [1, 2, 3]

    on_a_cluster(play)


def test_an_empty_directory_takes_the_place_of_one_whose_records_others_have() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 3)
        await nodes.stop(3)
        await nodes.converged()
        assert all(set(one.isr) == {1, 2} for one in nodes.placed(1, "t"))
        twin = ClusterNodes(nodes._loop, nodes.store, "twin", has_doors=True, factor=3)
        await twin.start(3)
        await nodes.converged()
        await until(lambda: all(set(one.isr) == {1, 2, 3} for one in nodes.placed(1, "t")))
        await twin.stop(3)

    on_a_cluster(play, has_doors=True, factor=3)


def test_the_directory_of_the_last_complete_replica_is_named() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.brokers[1].create_topic(NewTopic("t", 1, {"min.insync.replicas": "1"}))
        await nodes.converged()
        for broker_id in (1, 2):
            await nodes.stop(broker_id)
        assert nodes.placed(3, "t")[0].isr == (3,)
        await nodes.stop(3)
        await nodes.start(1)
        twin = ClusterNodes(nodes._loop, nodes.store, "twin", has_doors=True, factor=3)
        with pytest.raises(TornSegment, match="no other broker has all records of t-0"):
            await twin.start(3)

    on_a_cluster(play, has_doors=True, factor=3)


def test_a_second_process_of_the_same_id_is_refused() -> None:
    async def play(nodes: ClusterNodes) -> None:
        twin = ClusterNodes(nodes._loop, nodes.store, "twin")
        with pytest.raises(DuplicateBroker, match="--node-id"):
            await twin.start(1)

    on_a_cluster(play, brokers=1)


def test_a_clean_stop_fences_at_once_and_a_clean_start_leads_again() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 3)
        await nodes.stop(3)
        await nodes.converged()
        assert leaders(nodes).count(NO_LEADER) == 1
        assert nodes.brokers[1].catalog.cluster.is_fenced(3)
        await nodes.start(3)
        await nodes.converged()
        assert sorted(leaders(nodes)) == [1, 2, 3]

    on_a_cluster(play)


def test_a_directory_of_another_kind_or_cluster_is_refused() -> None:
    async def play(nodes: ClusterNodes) -> None:
        machine = nodes._machines[2]
        await nodes.stop(2)

        async def open_shared(cluster_id: str, seen_index: int) -> ModelMetadataLog:
            log = ModelMetadataLog(nodes.store)
            log.cluster_id = "another"
            return log

        async def start_wrongly(shared: bool) -> None:
            runtime = Runtime(machine.clock, machine.rng, machine.files, machine.workers)
            await start_broker(Settings(data_dir="data", node_id=2), runtime, open_shared if shared else None)

        with pytest.raises(WrongCluster, match="--metadata and --data-dir"):
            await machine.boot(lambda _: start_wrongly(True))
        with pytest.raises(WrongCluster, match="start it with --metadata or --cluster"):
            await machine.boot(lambda _: start_wrongly(False))
        await nodes.start(2)

    on_a_cluster(play)


class _PromptHost:
    """Appends and applies at once, with what others append at the same time."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._changes = 0
        self.follow: Callable[[BrokerRegistration], None] = lambda broker: None
        self.fences_before: set[int] = set()
        """Changes, by number, before which others fence broker 1."""
        self.fences_after: set[int] = set()

    async def change(self, decide: Callable[[Catalog], Sequence[Event]]) -> None:
        await asyncio.sleep(0)
        self._changes += 1
        if self._changes in self.fences_before:
            self._apply(_fence_first)
        self._apply(decide)
        if self._changes in self.fences_after:
            self._apply(_fence_first)

    def _apply(self, decide: Callable[[Catalog], Sequence[Event]]) -> None:
        for event in decide(self._catalog):
            self._catalog.apply(event)
            if isinstance(event, BrokerSaved):
                self.follow(event.broker)


def _fence_first(catalog: Catalog) -> Sequence[Event]:
    return decide_fence(catalog.cluster, 1, catalog.cluster.broker(1).epoch)


def _on_a_member(
    scene: Callable[[ModelStore, _PromptHost, ClusterMembership], Coroutine[Any, Any, None]],
) -> None:
    """A membership without a broker around it. It must not spin: the run has few steps."""

    async def main(loop: SimLoop) -> None:
        store, catalog = ModelStore(), Catalog()
        host, profile = _PromptHost(catalog), MemberProfile("c", 1, "run", "", bytes(32))
        membership = ClusterMembership(
            ModelMetadataLog(store),
            cast(CatalogHost, host),
            catalog,
            profile,
            lambda _: None,
            lambda *_: None,
        )
        host.follow = membership.follow_registration
        await scene(store, host, membership)
        await asyncio.sleep(1)
        assert membership.has_session and membership.is_active
        await membership.begin_leaving()

    SimLoop(1, run_steps_max=10_000).run(main)  # type: ignore[abstract]


def test_a_broker_that_is_fenced_while_it_joins_again_comes_to_rest() -> None:
    async def scene(store: ModelStore, host: _PromptHost, membership: ClusterMembership) -> None:
        await membership.join({})
        # Between its registration and its wish to be unfenced, the controller fences it for the old session.
        host.fences_before = {4}
        store.expire("broker-1")

    _on_a_member(scene)


def test_a_broker_that_is_fenced_in_the_moment_in_which_it_has_joined_asks_again() -> None:
    async def scene(store: ModelStore, host: _PromptHost, membership: ClusterMembership) -> None:
        host.fences_after = {2}
        await membership.join({})

    _on_a_member(scene)
