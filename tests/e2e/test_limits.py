"""Limits on a real broker: who goes over one is refused, slowed or closed with one line; others notice nothing."""

from __future__ import annotations

import json
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest

from compat.raw import RawConnection, batch, fetch_fields
from penstock.testing import Broker, running_broker
from penstock.wire.kafka import ApiKey, encode_request, messages

WAIT_S = 20.0
POLL_S = 0.02
MIB = 1 << 20


@contextmanager
def limited(home: Path, **flags: Any) -> Iterator[Broker]:
    with running_broker(home, log_format="json", **flags) as broker:
        yield broker
        assert "Traceback" not in broker.output()
        assert "defect" not in broker.output()


class Peer:
    """A bare socket to a broker."""

    def __init__(self, broker: Broker, source: str = "127.0.0.1") -> None:
        self._broker = broker
        self._from = len(broker.output())
        address = (broker.host, broker.port)
        self.socket = socket.create_connection(address, timeout=WAIT_S, source_address=(source, 0))
        self.name = "{}:{}".format(*self.socket.getsockname())

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def is_closed(self) -> bool:
        """Waits for the broker's next word: whether that is the end."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def is_served(self) -> bool:
        """Whether a request is answered."""
        try:
            self.send(VERSIONS_REQUEST)
            return len(self.socket.recv(4)) == 4
        except (ConnectionResetError, BrokenPipeError):
            return False

    def lines(self) -> list[str]:
        """What the broker said about this connection."""
        lines = [
            json.loads(line)
            for line in self._broker.output()[self._from :].splitlines()
            if line.startswith("{")
        ]
        return [line["message"] for line in lines if line.get("peer") == self.name]

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def check_told(peer: Peer, *words: str) -> None:
    """Exactly one line, and it says why."""
    assert peer.is_closed()
    (line,) = peer.lines()
    assert all(word in line for word in words), line


def until(what: Callable[[], bool], why: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < deadline, why
        time.sleep(POLL_S)


def rss_bytes(broker: Broker) -> int:
    for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def test_connections_in_all(tmp_path: Path) -> None:
    with limited(tmp_path, connections_max=5) as broker, ExitStack() as stack:
        peers = [stack.enter_context(Peer(broker)) for _ in range(5)]
        assert all(peer.is_served() for peer in peers)
        with Peer(broker) as refused:
            check_told(refused, "rejecting", "connections_max")
        peers[0].socket.close()
        until(lambda: Peer(broker).is_served(), "a free place is not given away")
        assert all(peer.is_served() for peer in peers[1:])


def test_connections_of_one_address(tmp_path: Path) -> None:
    with limited(tmp_path, connections_per_address_max=2) as broker, ExitStack() as stack:
        peers = [stack.enter_context(Peer(broker)) for _ in range(2)]
        assert all(peer.is_served() for peer in peers)
        with Peer(broker) as refused:
            check_told(refused, "rejecting", "connections_per_address_max")
        with Peer(broker, "127.0.0.2") as neighbour:
            assert neighbour.is_served()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    flags = {"message_bytes_max": 50_000, "frame_bytes_max": 100_000, "frame_ms_max": 300}
    with limited(tmp_path_factory.mktemp("limits"), **flags) as running:
        yield running


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (struct.pack(">i", 100_001), ("100001 bytes", "limit of 100000")),
        (struct.pack(">i", 2**31 - 1), ("2147483647 bytes", "limit of 100000")),
        (struct.pack(">i", -1), ("frame length -1",)),
        (struct.pack(">i", -(2**31)), ("frame length -2147483648",)),
        (struct.pack(">i", 0), ("truncated header",)),
        (struct.pack(">ihhi", 8, 18, 0, 1), ("truncated header",)),
        (struct.pack(">ihhih", 10, 9_999, 0, 1, -1), ("API 9999", "not supported")),
        (struct.pack(">ihhih", 10, 3, 99, 1, -1), ("Metadata", "version 99", "not supported")),
        (struct.pack(">ihhih", 10, 3, -5, 1, -1), ("version -5", "not supported")),
        (struct.pack(">ihhih", 10, 18, 0, 1, 30_000), ("client id",)),
        (struct.pack(">ihhihi", 14, 3, 5, 1, -1, 2**31 - 1), ("closing",)),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", ("TLS", "security.protocol=PLAINTEXT")),
    ],
    ids=str,
)
def test_what_no_client_sends_ends_its_connection_only(
    broker: Broker, data: bytes, words: tuple[str, ...]
) -> None:
    with Peer(broker) as healthy, Peer(broker) as strange:
        assert healthy.is_served()
        strange.send(data)
        check_told(strange, *words)
        assert healthy.is_served()


@pytest.mark.parametrize("data", [b"\0", struct.pack(">i", 500), struct.pack(">ihh", 500, 3, 5)], ids=str)
def test_half_a_request_is_not_waited_for_for_ever(broker: Broker, data: bytes) -> None:
    with Peer(broker) as stalled:
        stalled.send(data)
        check_told(stalled, "incomplete", "frame_ms_max")


def test_a_request_that_dribbles_in_is_not_waited_for_either(broker: Broker) -> None:
    with Peer(broker) as dribbling, pytest.raises(OSError, match=r"reset|Broken pipe"):
        dribbling.send(struct.pack(">i", 90_000))
        while True:
            dribbling.send(b"x")
            time.sleep(POLL_S)
    (line,) = dribbling.lines()
    assert "frame_ms_max" in line


def test_an_idle_connection_is_closed_and_a_busy_one_is_not(tmp_path: Path) -> None:
    with limited(tmp_path, idle_ms_max=400) as broker, Peer(broker) as idle, Peer(broker) as busy:
        assert idle.is_served()
        idle.socket.setblocking(False)
        while not idle.lines():
            assert busy.is_served()
            busy.socket.recv(65_536)
        idle.socket.settimeout(WAIT_S)
        while not idle.is_closed():
            pass
        (line,) = idle.lines()
        assert "idle_ms_max" in line
        assert busy.lines() == []


def test_random_bytes_never_break_anything(broker: Broker) -> None:
    chance = random.Random(11)
    with Peer(broker) as healthy:
        for _ in range(300):
            body = chance.randbytes(chance.randrange(1, 300))
            start = struct.pack(">hhi", chance.randrange(-1, 80), chance.randrange(-1, 18), 7)
            with Peer(broker) as strange:
                strange.send(struct.pack(">i", len(start) + len(body)) + start + body)
                strange.socket.shutdown(socket.SHUT_WR)
                while not _is_over(strange):
                    pass
            assert len(strange.lines()) <= 1
        assert healthy.is_served()


def _is_over(peer: Peer) -> bool:
    try:
        return peer.socket.recv(65_536) == b""
    except ConnectionResetError:
        return True


def test_answers_come_in_the_order_of_the_requests(broker: Broker) -> None:
    with RawConnection(broker.bootstrap) as raw:
        raw.create_topic("ordered")
        asked = []
        for number in range(200):
            if number % 4 == 0:
                asked.append(raw.send_produce("ordered", batch(b"%d" % number)))
            elif number % 4 == 1:
                asked.append(raw.send(MetadataRequest, 5, topics=None, allow_auto_topic_creation=False))
            else:
                wait = fetch_fields([("ordered", 0, number // 4 + number % 4)], max_wait_ms=20)
                asked.append(raw.send(FetchRequest, 11, **wait))
        assert [raw.receive()[0] for _ in asked] == asked


def test_a_thousand_idle_connections_cost_little(tmp_path: Path) -> None:
    with limited(tmp_path) as broker, ExitStack() as stack:
        before = rss_bytes(broker)
        peers = [stack.enter_context(Peer(broker)) for _ in range(1_000)]
        assert all(peer.is_served() for peer in peers[::50])
        assert rss_bytes(broker) - before < 80 * MIB


def metadata_request() -> bytes:
    return encode_request(ApiKey.METADATA, 5, 1, None, messages.MetadataRequest(topics=None))


def fetch_request() -> bytes:
    request = messages.FetchRequest
    one = request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MIB, log_start_offset=-1)
    topics = [request.FetchTopic(topic="big", partitions=[one])]
    body = request(replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=MIB, topics=topics, session_epoch=-1)
    return encode_request(ApiKey.FETCH, 11, 1, None, body)


@pytest.mark.parametrize("make_request", [metadata_request, fetch_request])
def test_a_client_that_never_reads_does_not_fill_the_memory(
    tmp_path: Path, make_request: Callable[[], bytes]
) -> None:
    flags = {"response_queue_bytes_max": MIB, "durability": "os"}
    with limited(tmp_path, **flags) as broker, RawConnection(broker.bootstrap) as raw, Peer(broker) as greedy:
        raw.create_topic("big", 200)
        for _ in range(3):
            assert raw.produce("big", batch(bytes(900_000))).error_code == 0
        before = rss_bytes(broker)
        greedy.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            while True:
                greedy.send(make_request() * 100)
        assert raw.produce("big", batch(b"still here")).error_code == 0
        assert rss_bytes(broker) - before < 60 * MIB


def test_requests_that_are_never_finished_do_not_starve_others(tmp_path: Path) -> None:
    """Halves of large requests take all of the shared memory: small ones pass, larger ones wait, not for ever."""
    sizes = {"frame_bytes_max": 6 * MIB, "inflight_bytes_max": 8 * MIB}
    with limited(tmp_path, **sizes, frame_ms_max=1_500) as broker, ExitStack() as stack:
        raw = stack.enter_context(RawConnection(broker.bootstrap))
        raw.create_topic("t")
        before = rss_bytes(broker)
        hogs = [stack.enter_context(Peer(broker)) for _ in range(12)]
        for hog in hogs:
            hog.socket.settimeout(0.3)
            hog.send(struct.pack(">i", 6 * MIB))
            with suppress(TimeoutError):
                hog.send(bytes(3 * MIB))
        assert raw.produce("t", batch(bytes(1_000))).error_code == 0
        assert raw.produce("t", batch(bytes(900_000))).error_code == 0
        assert rss_bytes(broker) - before < 60 * MIB
        for hog in hogs:
            hog.socket.settimeout(WAIT_S)
            check_told(hog, "frame_ms_max")
