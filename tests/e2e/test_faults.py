"""Disks that fill up, fail and forget under a running broker: a clear message, and nothing acknowledged is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from compat.raw import RawConnection, batch
from e2e.acked import read_all
from e2e.disks import failing_call, immutable, loop_disk
from penstock.testing import Broker, running_broker
from penstock.wire.kafka import ErrorCode

BALLAST_BYTES = 4 << 20
VALUE_BYTES = 100_000
STORAGE = int(ErrorCode.KAFKA_STORAGE_ERROR)


class Writing:
    """A topic of one partition that is written one record at a time."""

    def __init__(self, broker: Broker, topic: str, **config: str) -> None:
        self.topic = topic
        self.acked: dict[int, bytes] = {}
        self._broker = broker
        self._number = 0
        with RawConnection(broker.bootstrap) as raw:
            raw.create_topic(topic, **config)

    def write(self, size: int = 100) -> int:
        """Write one record; returns the error code."""
        self._number += 1
        value = (b"%s-%d:" % (self.topic.encode(), self._number)).ljust(size, b".")
        with RawConnection(self._broker.bootstrap) as raw:
            answer = raw.produce(self.topic, batch(value))
        if not answer.error_code:
            self.acked[answer.base_offset] = value
        return int(answer.error_code)

    def check(self) -> None:
        """Everything acknowledged is there, as it was written, and the offsets are dense."""
        start, end, found = read_all(self._broker.bootstrap, self.topic, 0)
        assert sorted(found) == list(range(start, end))
        assert {offset: value for offset, value in self.acked.items() if found[offset][1] != value} == {}

    def directory(self) -> Path:
        with RawConnection(self._broker.bootstrap) as raw:
            (topic,) = raw.metadata([self.topic]).topics
        topic_id = topic.topic_id if isinstance(topic.topic_id, UUID) else UUID(bytes=bytes(topic.topic_id))
        return self._broker.data_dir / "topics" / topic_id.hex / "0"


OFTEN = {"retention_check_ms": 20, "checkpoint_interval_ms": 20}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path, segment_bytes=1 << 20, flush_threads=1) as running:
        yield running


def test_a_full_disk_refuses_writes_until_there_is_space(tmp_path: Path) -> None:
    with loop_disk(tmp_path) as disk:
        ballast = disk.root / "ballast"
        ballast.write_bytes(bytes(BALLAST_BYTES))
        with running_broker(tmp_path, segment_bytes=1 << 20, **OFTEN) as broker:
            writing = Writing(broker, "filling")
            for _ in range(1_000):
                if writing.write(VALUE_BYTES) == STORAGE:
                    break
            assert writing.write(VALUE_BYTES) == STORAGE
            assert "No space left on device" in broker.output()
            writing.check()
            ballast.unlink()
            assert writing.write(VALUE_BYTES) == 0
            other = Writing(broker, "born-after")
            assert other.write() == 0
            broker.kill()
            broker.start()
            writing.check()
            other.check()
            assert "offline" not in broker.output()


def test_a_broker_stops_and_starts_on_a_full_disk(tmp_path: Path) -> None:
    with loop_disk(tmp_path) as disk, running_broker(tmp_path, segment_bytes=1 << 20) as broker:
        writing = Writing(broker, "filling")
        while writing.write(VALUE_BYTES) != STORAGE:
            pass
        size = 4_096
        with (
            (disk.root / "crumbs").open("wb", buffering=0) as crumbs,
            pytest.raises(OSError, match="No space"),
        ):
            while True:
                crumbs.write(bytes(size))
        assert broker.stop() == 0
        assert "the next start will verify all logs" in broker.output()
        assert "Traceback" not in broker.output()
        (disk.root / "crumbs").unlink()
        broker.start()
        writing.check()


def test_a_disk_that_turns_read_only_loses_nothing(tmp_path: Path) -> None:
    with loop_disk(tmp_path) as disk, running_broker(tmp_path) as broker:
        writing = Writing(broker, "frozen")
        for _ in range(20):
            assert writing.write() == 0
        disk.turn_read_only()
        assert writing.write() == STORAGE
        assert "Read-only file system" in broker.output()
        assert "partition is offline" in broker.output()
        broker.kill()
        disk.repair()
        broker.start()
        writing.check()
        assert writing.write() == 0


def test_a_revoked_permission_takes_only_its_partition_offline(broker: Broker) -> None:
    forbidden, free = Writing(broker, "forbidden"), Writing(broker, "free")
    assert [forbidden.write(), free.write()] == [0, 0]
    with immutable(forbidden.directory() / f"{0:020d}.log"):
        assert forbidden.write() == STORAGE
        assert free.write() == 0
        assert "Operation not permitted" in broker.output()
    assert forbidden.write() == STORAGE
    broker.restart()
    forbidden.check()
    free.check()
    assert forbidden.write() == 0


def test_a_directory_without_permission_is_met_at_the_roll(broker: Broker) -> None:
    forbidden, free = Writing(broker, "forbidden", segment_bytes="2000"), Writing(broker, "free")
    assert forbidden.write(1_500) == 0
    with immutable(forbidden.directory()):
        assert forbidden.write(1_500) == STORAGE
        assert free.write() == 0
        assert "Operation not permitted" in broker.output()
    broker.restart()
    forbidden.check()
    assert forbidden.write(1_500) == 0


def test_a_failed_flush_is_never_retried_and_called_good(broker: Broker, tmp_path: Path) -> None:
    failing, healthy = Writing(broker, "failing"), Writing(broker, "healthy")
    assert [failing.write(), healthy.write()] == [0, 0]
    calls = tmp_path / "calls"
    with failing_call(broker.pid, "fdatasync", "EIO", calls, when="1"):
        assert failing.write() == STORAGE
        assert failing.write() == STORAGE
        assert healthy.write() == 0
    traced = calls.read_text().count("fdatasync(")
    assert traced == 2, calls.read_text()
    assert "Input/output error" in broker.output()
    assert broker.output().count("partition is offline") == 1
    broker.restart()
    failing.check()
    healthy.check()
    assert failing.write() == 0


def test_a_failed_write_is_not_acknowledged(broker: Broker, tmp_path: Path) -> None:
    failing, healthy = Writing(broker, "failing"), Writing(broker, "healthy")
    assert [failing.write(), healthy.write()] == [0, 0]
    with failing_call(broker.pid, "pwrite64", "EIO", tmp_path / "calls", when="1"):
        assert failing.write() == STORAGE
        assert healthy.write() == 0
    assert failing.write() == STORAGE
    broker.restart()
    failing.check()
    assert failing.write() == 0
