"""kill -9 at random moments of a real process with real clients: nothing acknowledged is lost, changed or doubled."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from e2e.acked import Producing, create_topic, producing, read_all
from penstock.testing import Broker, running_broker

PARTITIONS = 2
SEGMENT_BYTES = 20_000
TOPICS = {
    "plain": {},
    "sized": {"retention_bytes": "60000"},
    "compact": {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "300"},
}
OFTEN = {"retention_check_ms": 7, "compaction_check_ms": 11, "checkpoint_interval_ms": 13}
"""The rounds that a broker makes now and then, all the time: a kill is likely to fall into one."""

LOAD_S_MAX = 0.3
START_S_MAX = 0.5
START_KILL_CHANCE = 0.4


def kill_often(broker: Broker, chance: random.Random, kills: int) -> Counter[str]:
    """Kill it under load and while it starts; each start that is let through must succeed."""
    killed: Counter[str] = Counter()
    while killed.total() < kills:
        time.sleep(chance.uniform(0, LOAD_S_MAX))
        broker.kill()
        killed["under load"] += 1
        while chance.random() < START_KILL_CHANCE:
            broker.launch()
            time.sleep(chance.uniform(0, START_S_MAX))
            broker.kill()
            killed["while starting"] += 1
        broker.start()
    return killed


def run_trial(seed: int, kills: int) -> Counter[str]:
    """One broker, killed again and again under two producers; then everything is read and compared."""
    chance = random.Random(seed)
    with running_broker(segment_bytes=SEGMENT_BYTES, **OFTEN) as broker:
        for name, config in TOPICS.items():
            create_topic(broker.bootstrap, name, PARTITIONS, **config)
        topics = dict.fromkeys(TOPICS, PARTITIONS)
        careful = Producing(broker.bootstrap, topics, "careful", seed, idempotent=True)
        simple = Producing(broker.bootstrap, topics, "simple", seed + 1, idempotent=False)
        with producing(careful, simple):
            killed = kill_often(broker, chance, kills)
        assert careful.failed == []
        acked = {**careful.acked, **simple.acked}
        assert len(acked) == len(careful.acked) + len(simple.acked), "two records were given the same place"
        for partition in range(PARTITIONS):
            check_plain(broker, partition, acked)
            check_sized(broker, partition, acked)
            check_compact(broker, partition, acked)
        assert "CRITICAL" not in broker.output()
        assert broker.stop() == 0
        broker.start()
    return killed


def of(acked: dict, topic: str, partition: int) -> dict:
    return {
        offset: what for (name, number, offset), what in acked.items() if (name, number) == (topic, partition)
    }


def check_plain(broker: Broker, partition: int, acked: dict) -> None:
    start, end, found = read_all(broker.bootstrap, "plain", partition)
    assert (start, sorted(found)) == (0, list(range(end)))
    promised = of(acked, "plain", partition)
    assert promised
    assert {offset: what for offset, what in promised.items() if found.get(offset) != what} == {}
    careful = Counter(value for _, value in found.values() if value.startswith(b"careful"))
    assert [value[:20] for value, count in careful.items() if count > 1] == []


def check_sized(broker: Broker, partition: int, acked: dict) -> None:
    start, end, found = read_all(broker.bootstrap, "sized", partition)
    first = min(found, default=end)
    assert first >= start
    assert sorted(found) == list(range(first, end))
    promised = of(acked, "sized", partition)
    assert max(promised) < end
    assert {o: what for o, what in promised.items() if o >= first and found[o] != what} == {}


def check_compact(broker: Broker, partition: int, acked: dict) -> None:
    _, end, found = read_all(broker.bootstrap, "compact", partition)
    promised = of(acked, "compact", partition)
    assert max(promised) < end
    assert {o: what for o, what in promised.items() if o in found and found[o] != what} == {}
    last_found = {key: offset for offset, (key, _) in sorted(found.items())}
    last_acked = {key: offset for offset, (key, _) in sorted(promised.items())}
    assert {key: offset for key, offset in last_acked.items() if last_found.get(key, -1) < offset} == {}


def test_a_dozen_kills() -> None:
    assert run_trial(1, 12).total() >= 12


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(100, 105))
def test_two_hundred_kills(seed: int) -> None:
    killed = run_trial(seed, 40)
    assert killed["under load"] > 0 and killed["while starting"] > 0
