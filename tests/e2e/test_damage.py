"""Files that were damaged while the broker was down: rebuilt, or refused, and never served as good."""

from __future__ import annotations

import random
import shutil
import socket
from pathlib import Path

import pytest
from kafka.protocol.consumer import FetchRequest

from compat.raw import RawConnection, batch, batches, fetch_fields
from e2e.acked import read_all
from penstock.testing import Broker, BrokerDied, running_broker
from penstock.wire.kafka import ErrorCode

RECORDS = 60
FLIPPED_PARTITIONS = 24
FLIPPED_RECORDS = 5
EPOCH_BYTES = range(12, 16)
"""Outside a batch's checksum, as Kafka has it: only an index entry behind the batch covers them."""
CORRUPT = int(ErrorCode.CORRUPT_MESSAGE)
OFFLINE = int(ErrorCode.KAFKA_STORAGE_ERROR)


def flip(path: Path, chance: random.Random) -> int:
    """Turn one bit over; returns its byte."""
    content = bytearray(path.read_bytes())
    at = chance.randrange(len(content))
    content[at] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    return at


def cut(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def empty(path: Path, chance: random.Random) -> None:
    path.write_bytes(b"")


def scribble(path: Path, chance: random.Random) -> None:
    path.write_bytes(chance.randbytes(max(1, path.stat().st_size)))


DAMAGES = [flip, cut, empty, scribble]


def write_records(broker: Broker, topic: str, partition: int, count: int) -> list[bytes]:
    """One record per batch, by an idempotent producer, so that there is something to snapshot."""
    values = [b"%s-%d-%d:" % (topic.encode(), partition, number) + bytes(60) for number in range(count)]
    with RawConnection(broker.bootstrap) as raw:
        producer_id, epoch = raw.producer_id()
        for sequence, value in enumerate(values):
            made = batch(value, producer_id=producer_id, epoch=epoch, sequence=sequence)
            answer = raw.produce(topic, made, partition=partition)
            assert (answer.error_code, answer.base_offset) == (0, sequence)
    return values


@pytest.fixture
def written(tmp_path: Path) -> tuple[Broker, list[bytes]]:
    """A broker that was stopped clean twice, with one topic of several segments."""
    broker = Broker(tmp_path, {"segment_bytes": 2_000, "index_interval_bytes": 200})
    broker.start()
    with RawConnection(broker.bootstrap) as raw:
        raw.create_topic("t")
    values = write_records(broker, "t", 0, RECORDS)
    broker.restart()
    broker.stop()
    return broker, values


def all_values(broker: Broker) -> list[bytes | None]:
    start, end, found = read_all(broker.bootstrap, "t", 0)
    assert (start, sorted(found)) == (0, list(range(end)))
    return [found[offset][1] for offset in range(end)]


REBUILT = [
    "recovery-points.json",
    "clean-stop.json",
    "topics/*/0/*.index",
    "topics/*/0/*.snapshot",
    "topics/*/0/leader-epochs",
]


@pytest.mark.parametrize("pattern", REBUILT)
def test_what_can_be_rebuilt_is_rebuilt(written: tuple[Broker, list[bytes]], pattern: str) -> None:
    broker, values = written
    for damage in DAMAGES:
        paths = sorted(broker.data_dir.glob(pattern))
        assert paths
        for number, path in enumerate(paths):
            damage(path, random.Random(number))
        broker.start()
        assert all_values(broker) == values
        with RawConnection(broker.bootstrap) as raw:
            assert raw.produce("t", batch(b"one more")).base_offset == len(values)
        values.append(b"one more")
        broker.stop()
    broker.start()
    try:
        assert all_values(broker) == values
        assert "CRITICAL" not in broker.output()
        if pattern == "recovery-points.json":
            assert broker.output().count("recovery-points.json is damaged") == len(DAMAGES)
    finally:
        broker.close()


@pytest.mark.parametrize("name", ["node.json", "metadata/00000000000000000000.log"])
def test_what_cannot_be_rebuilt_is_refused_and_nothing_is_touched(
    written: tuple[Broker, list[bytes]], name: str
) -> None:
    broker, values = written
    path = broker.data_dir / name
    good, before = path.read_bytes(), tree(broker.data_dir / "topics")
    for damage in DAMAGES:
        damage(path, random.Random(2))
        with pytest.raises(BrokerDied, match="Cannot start from"):
            broker.start()
        path.write_bytes(good)
    assert "Traceback" not in broker.output()
    assert tree(broker.data_dir / "topics") == before
    broker.start()
    try:
        assert all_values(broker) == values
    finally:
        broker.close()


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }


def test_a_damaged_catalog_after_a_kill_deletes_no_topic(tmp_path: Path) -> None:
    with running_broker(tmp_path, checkpoint_interval_ms=3_600_000) as broker:
        for name in ("t", "u", "v"):
            with RawConnection(broker.bootstrap) as raw:
                raw.create_topic(name)
            write_records(broker, name, 0, 3)
        broker.kill()
        path = broker.data_dir / "metadata" / f"{0:020d}.log"
        good = path.read_bytes()
        path.write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
        with pytest.raises(BrokerDied, match="restore it"):
            broker.start()
        path.write_bytes(good[:-1])
        broker.start()
        assert len(list((broker.data_dir / "topics").iterdir())) == 3
        assert "belongs to no known topic" in broker.output()
        broker.kill()
        path.write_bytes(good)
        broker.start()
        for name in ("t", "u", "v"):
            assert len(read_all(broker.bootstrap, name, 0)[2]) == 3


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_flipped_bit_is_never_served_as_good(tmp_path: Path, is_clean: bool) -> None:
    """One bit in each of many partitions: what is served is what was written, and every flip that matters is told."""
    chance = random.Random(7)
    with running_broker(tmp_path) as broker:
        with RawConnection(broker.bootstrap) as raw:
            raw.create_topic("t", FLIPPED_PARTITIONS)
        values = [
            write_records(broker, "t", partition, FLIPPED_RECORDS) for partition in range(FLIPPED_PARTITIONS)
        ]
        broker.stop() if is_clean else broker.kill()
        (topic,) = (broker.data_dir / "topics").iterdir()
        paths = [topic / str(partition) / f"{0:020d}.log" for partition in range(FLIPPED_PARTITIONS)]
        flipped = [flip(path, chance) % (path.stat().st_size // FLIPPED_RECORDS) for path in paths]
        broker.start()
        told = 0
        with RawConnection(broker.bootstrap) as raw:
            for partition in range(FLIPPED_PARTITIONS):
                served, error_code = read_partition(raw, partition)
                assert served == values[partition][: len(served)]
                is_told = error_code in (CORRUPT, OFFLINE) or len(served) < FLIPPED_RECORDS
                assert is_told or (flipped[partition] in EPOCH_BYTES and not is_clean)
                told += is_told
        words = ("batch does not match its checksum", ": truncated ", "is offline")
        assert sum(broker.output().count(word) for word in words) >= told


def read_partition(raw: RawConnection, partition: int) -> tuple[list[bytes], int]:
    """The values up to the end or the first error, checked as a careful client does; and the error, if any."""
    served: list[bytes] = []
    while True:
        wanted = fetch_fields([("t", partition, len(served))])
        answer = raw.call(FetchRequest, 11, **wanted).responses[0].partitions[0]
        values = [record.value for one in batches(answer.records or b"") for record in one]
        if answer.error_code or not values:
            return served, int(answer.error_code)
        served += values


def test_a_missing_segment_is_told_and_takes_only_its_partition_offline(tmp_path: Path) -> None:
    with running_broker(tmp_path, segment_bytes=2_000) as broker:
        with RawConnection(broker.bootstrap) as raw:
            raw.create_topic("t", 2)
        for partition in range(2):
            write_records(broker, "t", partition, 40)
        broker.stop()
        (topic,) = (broker.data_dir / "topics").iterdir()
        last = sorted((topic / "0").glob("*.log"))[-1]
        shutil.move(last, tmp_path / "moved")
        broker.start()
        assert "restore the missing files" in broker.output()
        with RawConnection(broker.bootstrap) as raw:
            assert raw.produce("t", batch(b"x"), partition=0).error_code == OFFLINE
            assert raw.produce("t", batch(b"x"), partition=1).error_code == 0
        broker.stop()
        shutil.move(tmp_path / "moved", last)
        broker.start()
        assert len(read_all(broker.bootstrap, "t", 0)[2]) == 40


def test_two_brokers_do_not_share_a_data_directory(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        (tmp_path / "second").mkdir()
        (tmp_path / "second" / "data").symlink_to(broker.data_dir)
        with pytest.raises(BrokerDied, match=f"in use by another broker .pid {broker.pid}"):
            Broker(tmp_path / "second", {}).start()


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BrokerDied, match=f"Cannot listen on 127.0.0.1:{port}") as died:
            Broker(tmp_path, {"port": port}).start()
    assert "Traceback" not in str(died.value)
