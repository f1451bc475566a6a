"""Links to a real broker process over real TCP: calls, a wrong key, kill -9, a process that is stopped for a while."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from linked_broker import MY_ID, PEER_ID, links_to, prepare, run
from penstock.core.errors import BrokerError, PeerUnavailable, TimedOut
from penstock.core.model import NewRecord, PartitionId
from penstock.core.records.build import build_batch, open_batches
from penstock.node.peers import peer_calls
from penstock.node.peers.links import PeerLinks
from penstock.node.peers.peer_calls import RemoteAppend
from penstock.node.runtime.clock import SystemClock
from penstock.testing.broker import Broker
from penstock.wire.kafka import messages

TIMEOUT_MS = 30_000
BATCHES = 200


class Linked:
    """A running broker, and what its peers know about it."""

    def __init__(self, broker: Broker, cluster_id: str, topic_id: bytes) -> None:
        self.broker = broker
        self.cluster_id = cluster_id
        self.partition = PartitionId(topic_id, 0)

    def send(self, links: PeerLinks, number: int) -> asyncio.Future[RemoteAppend | BrokerError]:
        outcome = asyncio.get_running_loop().create_future()
        batch = build_batch([NewRecord(None, b"%d" % number)], SystemClock().now_ms())
        peer_calls.send_batch(
            links, PEER_ID, self.partition, batch, outcome.set_result, timeout_ms=TIMEOUT_MS
        )
        return outcome

    async def read(self, links: PeerLinks) -> list[int]:
        found = await peer_calls.fetch(
            links, PEER_ID, self.partition, 0, bytes_max=10_000_000, wait_ms=0, timeout_ms=TIMEOUT_MS
        )
        return [int(record.value or b"") for record in open_batches(found.records)]

    async def until_reached(self, links: PeerLinks) -> None:
        while True:
            try:
                await links.call(
                    PEER_ID, messages.DescribeClusterRequest(endpoint_type=1), timeout_ms=TIMEOUT_MS
                )
            except (PeerUnavailable, TimedOut):
                await asyncio.sleep(0.01)
            else:
                return


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[Linked]:
    ids = prepare(tmp_path / "data")
    broker = Broker(tmp_path, {"node_id": PEER_ID})
    broker.start()
    yield Linked(broker, *ids)
    broker.close()


def test_batches_cross_a_link_and_are_read_back(linked: Linked) -> None:
    async def main() -> None:
        links = links_to(linked.broker, linked.cluster_id)
        outcomes = await asyncio.gather(*(linked.send(links, number) for number in range(BATCHES)))
        assert [one.base_offset for one in outcomes if isinstance(one, RemoteAppend)] == list(range(BATCHES))
        assert await linked.read(links) == list(range(BATCHES))
        await links.close()

    run(main)
    assert f"broker {MY_ID} opened a link" in linked.broker.output()


def test_a_wrong_key_is_refused_and_the_broker_lives(linked: Linked) -> None:
    async def main() -> None:
        impostor = links_to(linked.broker, linked.cluster_id, b"x" * 32)
        outcome = await linked.send(impostor, 1)
        assert isinstance(outcome, PeerUnavailable) and "does not know the link key" in str(outcome)
        await impostor.close()
        links = links_to(linked.broker, linked.cluster_id)
        assert isinstance(await linked.send(links, 2), RemoteAppend)
        assert await linked.read(links) == [2]
        await links.close()

    run(main)


def test_acknowledged_batches_survive_a_kill_and_the_link_comes_back(linked: Linked) -> None:
    async def main() -> None:
        links = links_to(linked.broker, linked.cluster_id)
        pending = [linked.send(links, number) for number in range(BATCHES)]
        await pending[BATCHES // 2]
        linked.broker.kill()
        outcomes = await asyncio.gather(*pending)
        assert isinstance(outcomes[0], RemoteAppend)
        linked.broker.start()
        await linked.until_reached(links)
        stored = await linked.read(links)
        assert len(set(stored)) == len(stored)
        for number, outcome in enumerate(outcomes):
            if isinstance(outcome, RemoteAppend):
                assert stored[outcome.base_offset] == number
            else:
                assert isinstance(outcome, TimedOut), outcome
        await links.close()

    run(main)


def test_a_stopped_process_times_out_and_is_used_again(linked: Linked) -> None:
    async def main() -> None:
        links = links_to(linked.broker, linked.cluster_id)
        assert isinstance(await linked.send(links, 0), RemoteAppend)
        request = messages.DescribeClusterRequest(endpoint_type=1)
        os.kill(linked.broker.pid, signal.SIGSTOP)
        try:
            with pytest.raises(TimedOut, match="the outcome is unknown"):
                await links.call(PEER_ID, request, timeout_ms=200)
        finally:
            os.kill(linked.broker.pid, signal.SIGCONT)
        await linked.until_reached(links)
        assert await linked.read(links) == [0]
        await links.close()

    run(main)
