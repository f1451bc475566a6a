"""Hosts in one loop over real sockets: what they learn, count, log and persist."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from manual_ports import Hand, PromptWorkers
from penstock.core.errors import DiskFull, InvalidConfig
from penstock.core.gossip.messages import Alive, PeerChanged, Verdict
from penstock.core.gossip.peer import GossipPeer, PeerState
from penstock.core.gossip.profile import LAN
from penstock.core.model import Address, Storage
from penstock.core.ports import Files
from penstock.node.broker import start_broker
from penstock.node.metrics.exposition import render
from penstock.node.peers.gossip import GossipHost, GossipOptions
from penstock.node.peers.incarnation import BLOCK
from penstock.node.peers.packet_rejects import BAD_PACKETS_PER_S_MAX
from penstock.node.runtime.clock import SystemRng
from penstock.node.runtime.memory import MemoryFiles
from penstock.node.runtime.runtime import Runtime
from penstock.node.settings import Settings
from penstock.wire.gossip.packets import Packet, PacketSeal

LOOPBACK = "127.0.0.1"
KEY = b"the key of a test cluster"
OPTIONS = GossipOptions(1, "c", KEY, Address(LOOPBACK, 0), profile=LAN.scaled(0.05))
SEAL = PacketSeal("c", KEY)


def runtime(files: Files | None = None) -> Runtime:
    return replace(Hand(files or MemoryFiles(), PromptWorkers()).runtime, rng=SystemRng())


@asynccontextmanager
async def running(count: int) -> AsyncIterator[list[GossipHost]]:
    """Hosts that all know each other."""
    hosts: list[GossipHost] = []
    try:
        for number in range(1, count + 1):
            seeds = (Address(LOOPBACK, hosts[0].address.port),) if hosts else ()
            host = GossipHost(replace(OPTIONS, broker_id=number, seeds=seeds), runtime())
            await host.start()
            hosts.append(host)
        await until(lambda: all(len(living(host)) == count for host in hosts))
        yield hosts
    finally:
        for host in hosts:
            host.close()


async def until(is_done: Callable[[], bool]) -> None:
    """The limit of the test run is the only one."""
    while not is_done():
        await asyncio.sleep(0.005)


def living(host: GossipHost) -> list[int]:
    return [peer.id for peer in host.peers if peer.is_living]


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


def tell(host: GossipHost, *packets: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for packet in packets:
            stranger.sendto(packet, host.address)


def test_hosts_find_each_other_publish_and_leave() -> None:
    async def test() -> None:
        async with running(3) as (first, second, third):
            changes: list[PeerChanged] = []
            first.listeners.append(changes.append)
            third.publish({"kafka": "10.0.0.3:9092"})
            await until(lambda: any(one.after.attribute("kafka") == "10.0.0.3:9092" for one in changes))
            await third.stop()
            await until(
                lambda: all(
                    peer.state is PeerState.LEFT
                    for host in (first, second)
                    for peer in host.peers
                    if peer.id == 3
                )
            )

    run(test)


def test_metrics_show_peers_packets_and_probes() -> None:
    async def test() -> None:
        broker = await start_broker(Settings(storage=Storage.MEMORY), runtime())
        host = GossipHost(replace(OPTIONS, broker_id=9), broker.runtime)
        await host.start()
        async with running(2) as (first, _):
            host._machine.set_seeds([first.address])  # type: ignore[union-attr]
            host._arm()
            meter = broker.runtime.meters.gossip
            await until(lambda: meter.peers.get("alive") == 3 and any(meter.round_trips.counts))
            tell(host, b"not gossip" * 10)
            await until(lambda: meter.rejected["protocol"] == 1)
            text = b"".join(render(broker)).decode()
            samples = {
                (one.name, *one.labels.values()): one.value
                for family in text_string_to_metric_families(text)
                for one in family.samples
            }
            assert samples["penstock_gossip_peers", "alive"] == 3
            assert samples["penstock_gossip_peers", "dead"] == 0
            assert samples["penstock_gossip_packets_total", "in"] > 2
            assert samples["penstock_gossip_bytes_total", "out"] > 100
            assert samples["penstock_gossip_rejected_total", "protocol"] == 1
            assert 0 <= samples[("penstock_gossip_local_health",)] <= 7
            assert samples[("penstock_gossip_probe_seconds_count",)] >= 1
        host.close()
        await broker.stop()

    run(test)


def test_a_replayed_packet_is_dropped_and_a_flood_of_bad_ones_costs_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with running(2) as (host, _):
            rejected = host._meter.rejected
            packet = SEAL.seal(Packet(7, 1, 1, (Verdict(8, 1, PeerState.DEAD, 7),)))
            tell(host, packet, packet)
            await until(lambda: rejected["replay"] == 1)
            bad = PacketSeal("c", KEY + b"!").seal(Packet(7, 1, 2, (Verdict(8, 1, PeerState.DEAD, 7),)))
            while not rejected["rate"]:
                tell(host, *[bad] * 50)
                await asyncio.sleep(0)
            assert rejected["signature"] >= BAD_PACKETS_PER_S_MAX
            assert living(host) == [1, 2], "its peers are still heard"

    run(test)
    lines = [record.getMessage() for record in caplog.records if "not signed" in record.getMessage()]
    assert len(lines) == 1


def test_the_incarnation_survives_a_restart_and_is_reserved_again_when_used_up() -> None:
    async def test() -> None:
        files = MemoryFiles()
        host = GossipHost(OPTIONS, runtime(files))
        await host.start()
        assert host.peers[0].incarnation == 1
        tell(host, SEAL.seal(Packet(7, 1, 1, (Verdict(1, 5 * BLOCK, PeerState.DEAD, 7),))))
        await until(lambda: host._incarnations.start > 5 * BLOCK)
        host.close()
        again = GossipHost(OPTIONS, runtime(files))
        await again.start()
        assert again.peers[0].incarnation > host.peers[0].incarnation == 5 * BLOCK + 1
        again.close()

    run(test)


def test_gossip_runs_without_a_disk(caplog: pytest.LogCaptureFixture) -> None:
    class FullFiles(MemoryFiles):
        def write_whole(self, path: str, content: bytes, *, sync: bool = True) -> None:
            raise DiskFull("no space left")

    async def test() -> None:
        host = GossipHost(OPTIONS, runtime(FullFiles()))
        await host.start()
        assert host.peers[0].incarnation == 1
        host.close()

    run(test)
    assert "cannot persist the gossip incarnation" in caplog.text


def test_a_second_process_with_the_same_id_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        host = GossipHost(OPTIONS, runtime())
        await host.start()
        impostor = GossipPeer(1, Address(LOOPBACK, 9), 77)
        tell(host, SEAL.seal(Packet(1, 1, 1, (Alive(impostor),))))
        await until(lambda: host.peers[0].incarnation == 78)
        host.close()

    run(test)
    assert "127.0.0.1:9 claims to be broker 1 as well" in caplog.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (replace(OPTIONS, bind=Address("0.0.0.0", 0)), "configure the one at which other brokers"),
        (replace(OPTIONS, advertised_host="broker-1"), "'broker-1' must be an IP address"),
    ],
)
def test_an_address_that_others_could_not_reach_is_refused(options: GossipOptions, words: str) -> None:
    async def test() -> None:
        with pytest.raises(InvalidConfig, match=words):
            await GossipHost(options, runtime()).start()

    run(test)


def test_a_seed_may_be_a_name_and_one_that_is_unknown_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running(1) as (first,):
            port = first.address.port
            seeds = (Address("no-such-host.invalid", port), Address("localhost", port))
            host = GossipHost(replace(OPTIONS, broker_id=2, seeds=seeds), runtime())
            await host.start()
            await until(lambda: living(first) == living(host) == [1, 2])
            await host.stop()

    run(test)
    assert "cannot look up the gossip seed no-such-host.invalid" in caplog.text


def test_a_peer_of_the_other_address_family_does_no_harm() -> None:
    async def test() -> None:
        host = GossipHost(OPTIONS, runtime())
        await host.start()
        far = GossipPeer(4, Address("fd00::4", 9), 1)
        tell(host, SEAL.seal(Packet(4, 1, 1, (Alive(far),))))
        await until(lambda: any(peer.state is PeerState.SUSPECT for peer in host.peers))
        host.close()

    run(test)
