"""Brokers that die are noticed by their refusing port, and only those; a process that started since is not hit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from cluster_nodes import ClusterNodes, on_a_cluster, until
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.cluster.brokers import (
    RegistrationRequest,
    decide_fence,
    decide_register,
    decide_stop,
    decide_unfence,
)
from penstock.core.machines.cluster.events import ClusterEvent
from penstock.core.model import Address
from penstock.node.broker import Broker
from penstock.node.cluster.metadata_log import CONTROLLER_SESSION, LiveSession, broker_session_name
from penstock.node.cluster.peer_probes import PROBE_S_MAX, PeerProbes
from sim.loop import SimLoop, run
from sim.metadata_model import ModelMetadataLog, ModelStore
from sim.net import Farewell


def probes(broker: Broker) -> PeerProbes:
    assert broker.controller is not None
    return broker.controller.probes


def sessions(nodes: ClusterNodes, broker_id: int) -> list[str]:
    return [one.name for one in nodes.store.sessions.live if one.holder == broker_id]


async def greeted(nodes: ClusterNodes) -> None:
    """Every broker has reached every other one."""
    count = len(nodes.brokers)
    await until(lambda: all(len(probes(one)._reached) == count - 1 for one in nodes.brokers.values()))


def is_fenced(nodes: ClusterNodes, broker_id: int) -> bool:
    return all(one.catalog.cluster.is_fenced(broker_id) for one in nodes.brokers.values())


@pytest.mark.parametrize("is_controller", [True, False])
def test_the_death_of_a_broker_is_noticed_at_once(is_controller: bool) -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 3)
        await greeted(nodes)
        await until(lambda: {one.controller_id for one in nodes.brokers.values()} <= {1, 2, 3})
        holder = nodes.brokers[1].controller_id
        dead = holder if is_controller else holder % 3 + 1
        nodes.kill(dead)
        hinted = next(one for one in nodes.brokers.values())
        probes(hinted).suspect(dead)
        before_s = asyncio.get_running_loop().time()
        await until(lambda: is_fenced(nodes, dead))
        assert asyncio.get_running_loop().time() - before_s < 1.0, "it did not wait for a time limit"
        assert sessions(nodes, dead) == []
        await until(lambda: hinted.controller_id not in (-1, dead))
        assert probes(hinted).ended_count == 1

    on_a_cluster(play, has_doors=True)


def test_a_broker_that_lives_is_left_alone() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await greeted(nodes)
        probes(nodes.brokers[1]).suspect(2)
        await asyncio.sleep(5)
        assert not is_fenced(nodes, 2) and probes(nodes.brokers[1]).ended_count == 0

    on_a_cluster(play, has_doors=True)


def test_a_machine_that_does_not_answer_is_left_to_its_session() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await greeted(nodes)
        del nodes.brokers[2]
        nodes.net.crash(nodes.host(2), Farewell.SILENCE)
        probes(nodes.brokers[1]).suspect(2)
        await asyncio.sleep(3 * PROBE_S_MAX)
        assert "broker-2" in sessions(nodes, 2) and not is_fenced(nodes, 2)
        nodes.expire(2)
        await until(lambda: is_fenced(nodes, 2))

    on_a_cluster(play, has_doors=True)


def test_a_broker_whose_port_was_never_reached_is_left_to_its_session() -> None:
    """Without doors every port refuses: a broker registers before it listens."""

    async def play(nodes: ClusterNodes) -> None:
        await asyncio.sleep(5)
        probes(nodes.brokers[1]).suspect(2)
        await asyncio.sleep(5)
        assert sessions(nodes, 2) and not is_fenced(nodes, 2)

    on_a_cluster(play)


class Registered:
    """The probes of broker 1, and broker 2 as it is registered: its port refuses."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.store, self.catalog = ModelStore(), Catalog()
        self.session = self.open()
        self.register("first", self.session)
        self.probes = PeerProbes(
            ModelMetadataLog(self.store), self.catalog, 1, lambda: self.store.sessions.live
        )
        self.probes.start()
        self.probes._reached[2] = self.catalog.cluster.broker(2).epoch

    def open(self, name: str = broker_session_name(2)) -> LiveSession:
        opened = self.store.sessions.open(name, 2)
        assert opened is not None
        return opened.live

    def register(self, incarnation_id: str, session: LiveSession) -> None:
        cluster = self.catalog.cluster
        request = RegistrationRequest(
            "c", 2, incarnation_id, {"kafka": Address("127.0.0.1", 9092)}, session=session.number
        )
        found = cluster.find_broker(2)
        if found is not None and found.incarnation_id != incarnation_id:
            self._apply(decide_fence(cluster, 2, found.epoch))
        self._apply(decide_register(cluster, request))
        self._apply(decide_unfence(cluster, 2, cluster.broker(2).epoch))

    def _apply(self, events: Sequence[ClusterEvent]) -> None:
        for event in events:
            self.catalog.apply(event)

    async def suspect(self) -> tuple[LiveSession, ...]:
        """The sessions that are left after a probe."""
        self.probes.suspect(2)
        await asyncio.sleep(1)
        return self.store.sessions.live


def test_both_sessions_of_a_dead_controller_end() -> None:
    async def main(loop: SimLoop) -> None:
        one = Registered(loop)
        one.open(CONTROLLER_SESSION)
        assert await one.suspect() == ()
        await one.probes.stop()

    run(1, main)


def test_a_process_that_has_started_since_is_not_hit() -> None:
    """The port of the new process refuses until it listens, but its session is another one."""

    async def main(loop: SimLoop) -> None:
        one = Registered(loop)
        one.store.sessions.end(one.session)
        new, role = one.open(), one.open(CONTROLLER_SESSION)
        assert await one.suspect() == (new, role), "it has not registered yet"
        one.register("second", new)
        assert await one.suspect() == (new, role), "it has registered, and was not reached yet"
        await one.probes.stop()

    run(1, main)


def test_a_session_that_is_opened_during_the_probe_is_not_hit() -> None:
    async def main(loop: SimLoop) -> None:
        one = Registered(loop)
        one.probes.suspect(2)
        one.store.sessions.end(one.session)
        new = one.open()
        await asyncio.sleep(1)
        assert one.store.sessions.live == (new,)
        await one.probes.stop()

    run(1, main)


def test_a_process_that_comes_back_was_alive_and_is_not_believed_dead_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A firewall refuses this broker's connections: without this, the broker would be fenced again and again."""

    async def main(loop: SimLoop) -> None:
        one = Registered(loop)
        assert await one.suspect() == ()
        back = one.open()
        one.register("first", back)
        assert await one.suspect() == (back,)
        await one.probes.stop()

    run(1, main)
    assert "is alive but refuses connections at 127.0.0.1:9092" in caplog.text


def test_brokers_that_are_stopping_or_fenced_are_not_probed() -> None:
    async def main(loop: SimLoop) -> None:
        one = Registered(loop)
        cluster = one.catalog.cluster
        one._apply(decide_stop(cluster, 2, cluster.broker(2).epoch))
        assert await one.suspect() == (one.session,)
        await one.probes.stop()
        one.probes.suspect(2)
        assert one.probes._hinted == {}

    run(1, main)
