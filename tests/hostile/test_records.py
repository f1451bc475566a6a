"""Batches with a right checksum and bad, or very large, content: produced, stored, read at every door, compacted.

Batches come in at the Kafka door only; the other doors build theirs from messages. What they read back is stored
here with `penstock.validation=header`, as data of an older broker or a rotten disk would be.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import count

import cramjam
import pytest
from websockets.sync.client import connect

from compat.bad_batches import INVALID_RECORD, NONE, cases, good, holding, packed, record
from compat.raw import RawConnection
from conditions import until
from contract.callers.caller import Caller, Kept, Message
from contract.callers.http import API, HttpCaller
from contract.callers.json_frames import JsonCaller
from contract.callers.queue import QueueCaller
from contract.callers.roster import CALLERS
from contract.callers.text import TextCaller
from hostile.harness import Harness
from penstock.core.codecs import ZSTD

BROKER_FLAGS = {"compaction_check_ms": 100}
MESSAGE_TOO_LARGE = 10
BAD = (
    "random bytes",
    "broken gzip",
    "equal deltas",
    "huge delta",
    "equal deltas in gzip",
    "an empty batch of 2^31-1 records",
)
PIPELINED, PIPELINED_SLOW = 100, 5_000
BOMB_BYTES = 1_200 << 20
"""What the bomb unfolds to; it is sent as less than 40 KB."""

BOMBS = 20
BOMB_GROWTH_MIB_MAX = 160.0
"""What is unfolded of one bomb before it is refused, in a few buffers; all of them together would take 320 MiB."""

TINY, TINY_SLOW = 200_000, 1_250_000
"""Records without key and value in one batch; the larger one is just below max.message.bytes."""

READ_MAX = 10_000
READERS: tuple[type[Caller], ...] = (HttpCaller, JsonCaller, TextCaller, QueueCaller)
"""The doors that open batches themselves; Kafka's hands them out as they are."""

_numbers = count()


@pytest.fixture
def raw(harness: Harness) -> Iterator[RawConnection]:
    with RawConnection(harness.broker.bootstrap) as connection:
        yield connection


def fresh(raw: RawConnection, **configs: str) -> str:
    topic = f"records-{next(_numbers)}"
    raw.create_topic(topic, 1, **configs)
    return topic


def batch_of(name: str) -> bytes:
    return next(case.batch for case in cases() if case.name == name)


def zstd(content_bytes: int) -> bytes:
    """One frame of zeros, made in pieces: nothing here is as large as what it unfolds to."""
    press, piece = cramjam.zstd.Compressor(), bytes(1 << 20)
    for _ in range(content_bytes >> 20):
        press.compress(piece)
    return bytes(press.finish())


def skippable(size: int) -> bytes:
    """A zstd frame that decoders pass over."""
    return struct.pack("<II", 0x184D2A50, size) + bytes(size)


def tiny(records: int) -> bytearray:
    body = b"".join(record(delta, key=b"\x01", value=b"\x01") for delta in range(records))
    return packed(body, ZSTD, records)


def damaged() -> Iterator[tuple[str, bytes | bytearray]]:
    """Batches whose header is right and whose records cannot be read, or not to their end."""
    for name in ("random bytes", "broken gzip", "equal deltas", "huge delta"):
        yield name, batch_of(name)
    yield "nothing", holding(b"")
    yield "bomb", holding(zstd(80 << 20), 3, ZSTD)


def damage(raw: RawConnection, **configs: str) -> tuple[str, int]:
    """A topic with a good record, damage of every kind, and a good one; and the offset of the last."""
    topic = fresh(raw, penstock_validation="header", **configs)
    last = 0
    for one in (good(1), *dict(damaged()).values(), good(1)):
        answer = raw.produce(topic, bytes(one))
        assert answer.error_code == NONE
        last = answer.base_offset
    return topic, last


def produce(raw: RawConnection, topic: str, batch: bytes | bytearray, times: int = 1) -> set[int]:
    """The error codes of a batch that is sent so often without waiting for answers."""
    for _ in range(times):
        raw.send_produce(topic, bytes(batch))
    answers = [raw.receive()[1] for _ in range(times)]
    return {one.responses[0].partition_responses[0].error_code for one in answers}


def read_everywhere(harness: Harness, topic: str) -> None:
    """Every door publishes and reads its own message: the partition goes on."""
    for kind in CALLERS:
        with kind(harness.broker) as caller:
            message = Message(kind.door.encode(), b"key")
            offset = caller.publish(topic, message)
            assert caller.read(topic, offset) == Kept(offset, message)


# -- what producers send


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("times", [PIPELINED, pytest.param(PIPELINED_SLOW, marks=pytest.mark.slow)])
def test_a_bad_batch_is_refused_and_every_door_goes_on(
    harness: Harness, raw: RawConnection, name: str, times: int
) -> None:
    topic = fresh(raw)
    with harness.case("kafka", f"{name} x {times:,}"):
        assert produce(raw, topic, batch_of(name), times) == {INVALID_RECORD}
        assert raw.offset_at(topic, -1).offset == 0
        read_everywhere(harness, topic)


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_bomb_is_refused(harness: Harness, raw: RawConnection, policy: str) -> None:
    bomb = holding(zstd(BOMB_BYTES), 3, ZSTD)
    topic = fresh(raw, cleanup_policy=policy)
    with harness.case(
        "kafka", f"{len(bomb) >> 10} KB of zstd unfold to {BOMB_BYTES >> 20:,} MB, {policy} x {BOMBS}"
    ):
        for _ in range(BOMBS):
            assert produce(raw, topic, bomb) == {MESSAGE_TOO_LARGE}
        read_everywhere(harness, topic)
    assert harness.rows[-1].growth_mib < BOMB_GROWTH_MIB_MAX


def test_a_frame_that_is_skipped_buys_no_room(harness: Harness, raw: RawConnection) -> None:
    bomb = holding(skippable(900 << 10) + zstd(256 << 20), 3, ZSTD)
    topic = fresh(raw)
    with harness.case("kafka", "skippable zstd frame of 900 KB, then 256 MB"):
        assert produce(raw, topic, bomb) <= {MESSAGE_TOO_LARGE, INVALID_RECORD}
        read_everywhere(harness, topic)
    assert harness.rows[-1].growth_mib < BOMB_GROWTH_MIB_MAX


@pytest.mark.parametrize("records", [TINY, pytest.param(TINY_SLOW, marks=pytest.mark.slow)])
def test_a_batch_of_very_many_records_is_read_at_every_door(
    harness: Harness, raw: RawConnection, records: int
) -> None:
    topic, batch = fresh(raw), tiny(records)
    read_everywhere(harness, fresh(raw))  # what a door loads at its first use does not count
    with harness.case("kafka", f"{records:,} records in {len(batch) >> 10:,} KB"):
        assert produce(raw, topic, batch) == {NONE}
    reads: dict[str, Callable[[], object]] = {
        "http": lambda: _many_by_http(harness, topic),
        "json": lambda: _many_by_json(harness, topic),
        "text": lambda: _one(harness, TextCaller, topic, records - 1),
        "queue": lambda: _one(harness, QueueCaller, topic, records - 1),
        "tail": lambda: _tail(harness, topic, READ_MAX),
    }
    for door, read in reads.items():
        with harness.case(door, f"read of {records:,} records in one batch"):
            read()


def _many_by_http(harness: Harness, topic: str) -> None:
    with HttpCaller(harness.broker) as caller:
        target = f"{API}/topics/{topic}/partitions/0/messages?max={READ_MAX}"
        assert len(caller.ask("GET", target)["messages"]) == READ_MAX


def _many_by_json(harness: Harness, topic: str) -> None:
    with JsonCaller(harness.broker) as caller:
        answer = caller.ask(command="CONSUME", topic=topic, max=READ_MAX)
        assert len(answer["messages"]) == READ_MAX


def _one(harness: Harness, kind: type[Caller], topic: str, offset: int) -> None:
    with kind(harness.broker) as caller:
        assert caller.read(topic, offset).offset == offset


def _tail(harness: Harness, topic: str, messages: int) -> list[str | bytes]:
    """The first messages of a topic by WebSocket."""
    place = f"ws://{harness.broker.host}:{harness.broker.http_port}{API}/topics/{topic}/tail"
    with connect(f"{place}?offset=earliest") as tail:
        return [tail.recv(timeout=60) for _ in range(messages)]


# -- what readers meet


@pytest.mark.parametrize("kind", READERS, ids=lambda kind: kind.door)
def test_a_reader_gets_past_damage(harness: Harness, raw: RawConnection, kind: type[Caller]) -> None:
    topic, last = damage(raw)
    with harness.case(kind.door, "read past damage"), kind(harness.broker) as caller:
        offset, seen = 0, []
        while offset <= last:
            found = caller.read(topic, offset)
            seen.append(found.offset)
            offset = found.offset + 1
    assert (seen[0], seen[-1]) == (0, last)


def test_a_tail_gets_past_damage(harness: Harness, raw: RawConnection) -> None:
    topic, last = damage(raw)
    place = f"ws://{harness.broker.host}:{harness.broker.http_port}{API}/topics/{topic}/tail"
    with harness.case("tail", "read past damage"), connect(f"{place}?offset=earliest") as tail:
        until(lambda: f'"offset":{last}' in str(tail.recv(timeout=60)), "the last message did not come")


def test_compaction_gets_past_damage(harness: Harness, raw: RawConnection) -> None:
    """Segments before and behind the damage are compacted; a round that fails would be logged as an error."""
    settings = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_bytes": "1024"}
    topic, last = damage(raw, **settings)
    logged = len(harness.broker.output())
    with harness.case("kafka", "compaction past damage"), HttpCaller(harness.broker) as caller:
        for number in range(100):
            last = caller.publish(topic, Message(b"%d" % number, b"one key"))
        target = f"{API}/topics/{topic}/partitions/0/messages?max={READ_MAX}"
        until(
            lambda: sum(one["key"] == "one key" for one in caller.ask("GET", target)["messages"]) < 50,
            "the log was not compacted",
        )
        assert caller.read(topic, last).message.value == b"99"
    assert "was not compacted" not in harness.broker.output()[logged:]
