"""The whole node loses its power, is killed, and is stopped, at any point; no promise that it made is broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from penstock.core.errors import BrokerError
from penstock.node import janitor
from penstock.node.replicas import flusher, sync
from penstock.node.replicas.partition import Partition
from sim import node
from sim.crashing import Crash, Trial
from sim.kafka_client import KafkaError
from sim.loop import Order, SimLoop, run

SEEDS = range(20)
MORE_SEEDS = range(1_000, 1_160)
SEEDS_TO_FIND_A_BUG_MAX = 20
CRASHES_MIN = 200


@pytest.fixture(autouse=True)
def small_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery points are taken all the time, not after megabytes."""
    monkeypatch.setattr(janitor, "CHECKPOINT_BYTES_MIN", node.CHECKPOINT_BYTES_MIN)


async def crash_often(loop: SimLoop) -> Trial:
    trial = Trial(loop)
    with node.complaints() as complaints:
        await trial.run()
    assert complaints == []
    return trial


def crashes_of(seeds: Iterable[int], order: Order = Order.HOSTS) -> Counter[str]:
    crashes: Counter[str] = Counter()
    for seed in seeds:
        trial = run(seed, crash_often, order=order)
        assert trial.ledger.checked > 0
        crashes += trial.crashes
    return crashes


def test_no_promise_is_broken_by_two_hundred_crashes() -> None:
    crashes = crashes_of(SEEDS)
    assert set(crashes) == {"while starting", *(crash.value for crash in Crash)}
    assert crashes.total() >= CRASHES_MIN


def test_no_promise_rests_on_the_order_of_callbacks() -> None:
    assert crashes_of(range(2), Order.ANY).total() > 0


@pytest.mark.slow
@pytest.mark.parametrize("first", MORE_SEEDS[::20])
def test_no_promise_is_broken_by_many_more_crashes(first: int) -> None:
    assert crashes_of(range(first, first + 20)).total() >= 100


def test_equal_seeds_crash_equally() -> None:
    async def digest(loop: SimLoop) -> str:
        await Trial(loop).run()
        return loop.digest()

    assert run(5, digest) == run(5, digest)


# ---- the same trials find bugs that were planted


def acks_before_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Partition, "when_committed", lambda self, offset, settled, timeout_ms=0: settled(None)
    )


def shows_before_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    write = Partition._write

    def write_and_show(self: Partition, *arguments: Any) -> int:
        offset = write(self, *arguments)
        self.log.advance(self.log.end_offset)
        return offset

    monkeypatch.setattr(Partition, "_write", write_and_show)


def forgets_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_sync(files: Any, plan: Any) -> float:
        for file in plan.files:
            file.sync()
        return 0.0

    monkeypatch.setattr(flusher, "run_sync", run_sync)
    monkeypatch.setattr(sync, "run_sync", run_sync)


def forgets_recovered_files(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sync_recovered(self: Partition) -> None:
        self.log.mark_synced(self.log.take_dirty())
        self._flushed(self.log.synced_offset)

    monkeypatch.setattr(Partition, "sync_recovered", sync_recovered)


def forgets_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.core.log.log.Log.rebuild_producers", lambda self, *arguments: None)


@pytest.mark.parametrize(
    "plant",
    [acks_before_sync, shows_before_sync, forgets_directories, forgets_recovered_files, forgets_producers],
)
def test_a_planted_bug_is_found(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, KafkaError, BrokerError)) as found:
        crashes_of(range(SEEDS_TO_FIND_A_BUG_MAX))
    assert "simulation of seed" in "".join(found.value.__notes__)
