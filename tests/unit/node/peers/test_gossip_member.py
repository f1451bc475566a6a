"""Brokers gossip over real UDP: whom they contact, what they say, and what happens without a port."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from manual_ports import Hand, PromptWorkers
from penstock.core.gossip.peer import PeerState
from penstock.core.machines.cluster.events import BrokerRemoved, BrokerSaved, LinkKeySaved
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.machines.cluster.values import GOSSIP_LISTENER, BrokerRegistration
from penstock.core.model import Address
from penstock.node.broker import OWN_NAMES
from penstock.node.peers import gossip_member
from penstock.node.peers.gossip_member import GossipMember, gossip_key
from penstock.node.peers.incarnation import INCARNATION_FILE
from penstock.node.runtime.clock import SystemRng
from penstock.node.runtime.memory import MemoryFiles

LINK_KEY = bytes(range(32))
LOOPBACK = "127.0.0.1"
ANY_PORT = Address(LOOPBACK, 0)


class World:
    """Members that share one cluster state, as brokers that have applied the same events."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.state.apply(LinkKeySaved(LINK_KEY))
        self.members: dict[int, GossipMember] = {}
        self.load: dict[int, dict[str, str]] = {}
        self.addresses: dict[int, dict[str, str]] = {}

    def member(self, broker_id: int) -> GossipMember:
        runtime = replace(Hand(MemoryFiles(), PromptWorkers()).runtime, rng=SystemRng())
        self.load[broker_id] = {"leaders": "0"}
        self.addresses[broker_id] = {"kafka": f"host-{broker_id}:9092"}
        made = GossipMember(
            runtime,
            broker_id,
            "c",
            self.state,
            lambda: dict(self.addresses[broker_id]),
            lambda: dict(self.load[broker_id]),
        )
        self.members[broker_id] = made
        return made

    async def join(self, broker_id: int) -> GossipMember:
        made = self.member(broker_id)
        port = free_port()
        assert await made.bind(Address(LOOPBACK, port), Address(LOOPBACK, port))
        self.register(broker_id, made.address)
        await made.start()
        return made

    def register(self, broker_id: int, address: Address, *, is_fenced: bool = False) -> None:
        listeners = {GOSSIP_LISTENER: address}
        self.state.apply(BrokerSaved(BrokerRegistration(broker_id, 1, "i", listeners, is_fenced=is_fenced)))
        self.follow()

    def follow(self) -> None:
        for member in self.members.values():
            member.follow_brokers()

    def seen(self, viewer: int, broker_id: int) -> PeerState | None:
        host = self.members[viewer].host
        peers = [] if host is None else host.peers
        return next((one.state for one in peers if one.id == broker_id), None)

    def attribute(self, viewer: int, broker_id: int, name: str) -> str | None:
        host = self.members[viewer].host
        assert host is not None
        return next((one.attribute(name) for one in host.peers if one.id == broker_id), None)


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(ANY_PORT)
        return int(probe.getsockname()[1])


async def until(is_done: Callable[[], bool]) -> None:
    """The limit of the test run is the only one."""
    while not is_done():
        await asyncio.sleep(0.005)


def play(test: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        world = World()
        try:
            await test(world)
        finally:
            for member in world.members.values():
                await member.stop()

    asyncio.run(main())


def test_brokers_find_each_other_by_their_registrations_and_say_goodbye() -> None:
    async def test(world: World) -> None:
        for broker_id in (1, 2, 3):
            await world.join(broker_id)
        pairs = [(one, other) for one in (1, 2, 3) for other in (1, 2, 3)]
        await until(lambda: all(world.seen(*pair) is PeerState.ALIVE for pair in pairs))
        assert world.attribute(1, 3, "kafka") == "host-3:9092"
        await world.members[3].stop()
        assert world.members[3].host is None
        await until(lambda: world.seen(1, 3) is world.seen(2, 3) is PeerState.LEFT)

    play(test)


def test_a_change_is_published_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gossip_member, "PUBLISH_S", 0.005)

    async def test(world: World) -> None:
        first, _ = await world.join(1), await world.join(2)
        await until(lambda: world.seen(2, 1) is PeerState.ALIVE)
        assert first.host is not None
        published: list[object] = []
        publish = first.host.publish

        def counting(attributes: Any) -> None:
            published.append(attributes)
            publish(attributes)

        monkeypatch.setattr(first.host, "publish", counting)
        world.load[1] = {"leaders": "7", "controller": "12"}
        await until(lambda: world.attribute(2, 1, "leaders") == "7")
        assert world.attribute(2, 1, "controller") == "12"
        assert published == [{"kafka": "host-1:9092", "leaders": "7", "controller": "12"}]

    play(test)


def test_fenced_and_removed_brokers_are_no_seeds() -> None:
    async def test(world: World) -> None:
        first = await world.join(1)
        assert first.host is not None
        seeds: list[Any] = []
        first.host.set_seeds = seeds.append  # type: ignore[method-assign]
        there, gone = Address(LOOPBACK, 9), Address(LOOPBACK, 10)
        world.register(2, there)
        world.register(3, gone, is_fenced=True)
        assert seeds[-1] == (there,)
        world.state.apply(BrokerRemoved(2))
        world.follow()
        assert seeds[-1] == ()

    play(test)


def test_a_port_that_is_taken_is_logged_and_the_broker_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def test(world: World) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(ANY_PORT)
            bind = Address(*taken.getsockname())
            member = world.member(1)
            assert not await member.bind(bind, bind)
        member.follow_brokers()
        assert member.host is None

    with caplog.at_level(logging.WARNING, "penstock.gossip"):
        play(test)
    (line,) = [one.getMessage() for one in caplog.records]
    assert "in use" in line and "without it" in line and "--no-gossip" in line


def test_an_advertised_name_becomes_an_address_and_an_unknown_one_turns_gossip_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(world: World) -> None:
        member = world.member(1)
        assert await member.bind(ANY_PORT, Address("localhost", 19092))
        assert member.address == Address(LOOPBACK, 19092)
        assert not await world.member(2).bind(ANY_PORT, Address("no-such-host.invalid", 9092))

    play(test)
    assert "cannot use UDP" in caplog.text


def test_a_name_of_this_machine_that_means_loopback_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gossip_member, "own_address", lambda: "192.0.2.7")

    async def test(world: World) -> None:
        monkeypatch.setattr(
            asyncio.get_running_loop(), "getaddrinfo", lambda *_, **__: answer("127.0.1.1"), raising=False
        )
        found = await gossip_member._reachable_ip("this-machine", "0.0.0.0")
        assert found == "192.0.2.7"
        assert await gossip_member._reachable_ip("this-machine", LOOPBACK) == "127.0.1.1"

    async def answer(host: str) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_DGRAM, 0, "", (host, 0))]

    play(test)


def test_addresses_that_are_too_long_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async def test(world: World) -> None:
        member = world.member(1)
        world.addresses[1] = dict.fromkeys(("kafka", "http", "json"), f"{'h' * 200}:9092")
        assert await member.bind(ANY_PORT, Address(LOOPBACK, 9092))
        await member.start()
        assert member.host is not None
        assert dict(member.host.peers[0].attributes) == {"leaders": "0"}

    play(test)
    assert "does not tell the addresses" in caplog.text


def test_the_key_is_not_the_link_key() -> None:
    assert gossip_key(LINK_KEY) != LINK_KEY
    assert gossip_key(LINK_KEY) == gossip_key(LINK_KEY) != gossip_key(bytes(32))


def test_the_incarnation_file_is_the_brokers_own() -> None:
    assert INCARNATION_FILE in OWN_NAMES
