"""kill -9 of members, of the broker, and of both while a subscription is delivered: every message is acknowledged at
least once, in order for a single member, nothing is lost, and deliveries are counted right."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from conditions import WAIT_S_MAX, until
from penstock import BrokerClient
from penstock.testing import Broker, running_broker

MEMBER = Path(__file__).with_name("queue_member.py")
SUBSCRIPTION = "work"
PARTITIONS = 2
PAUSE_S_MAX = 0.4


class Note(NamedTuple):
    """One delivery, as a member noted it."""

    partition: int
    offset: int
    number: int
    text: str


class Member:
    """A member's process and the file that outlives it."""

    def __init__(self, broker: Broker, path: Path, *words: str) -> None:
        self._command = [sys.executable, str(MEMBER), str(broker.queue_port), SUBSCRIPTION, str(path), *words]
        self.path = path
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def notes(self) -> list[Note]:
        """Whole lines only: the last one may be cut."""
        if not self.path.exists():
            return []
        lines = self.path.read_text().splitlines(keepends=True)
        rows = [line.split() for line in lines if line.endswith("\n")]
        return [Note(int(row[0]), int(row[1]), int(row[2]), row[3]) for row in rows]


class Publishing:
    """A thread that publishes until it is told to stop, and remembers what it was promised."""

    def __init__(self, broker: Broker) -> None:
        self._client = BrokerClient(port=broker.queue_port, request_timeout_s=WAIT_S_MAX)
        self._stopping = threading.Event()
        self.promised: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with self._client:
            while not self._stopping.is_set():
                text = f"m{len(self.promised)}"
                self._client.publish("t", text.encode(), partition=len(self.promised) % PARTITIONS)
                self.promised.append(text)

    def __enter__(self) -> Publishing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(WAIT_S_MAX)
        assert not self._thread.is_alive()


@contextmanager
def members(broker: Broker, home: Path, count: int) -> Iterator[list[Member]]:
    running = [Member(broker, home / f"member-{number}") for number in range(count)]
    try:
        yield running
    finally:
        for member in running:
            member.kill()


def prepare(broker: Broker, **terms: int) -> None:
    with BrokerClient(port=broker.queue_port) as client:
        client.create_topic("t", PARTITIONS)
        client.create_subscription(SUBSCRIPTION, "t", **terms)


def unsettled(client: BrokerClient) -> int:
    found = client.describe_subscription(SUBSCRIPTION)
    return sum(int(one["unsettled_count"]) for one in found["partitions"])


def run_trial(home: Path, seed: int, kills: int, count: int) -> tuple[list[Member], list[str]]:
    """Kill by chance, then let everything come to its end; returns the members with their notes, and the promises."""
    chance = random.Random(seed)
    with running_broker(home) as broker:
        prepare(broker, max_deliveries=1_000)
        with members(broker, home, count) as running:
            with Publishing(broker) as publishing:
                for kill in range(kills):
                    seen = sum(len(member.notes) for member in running)
                    until(
                        lambda seen=seen: sum(len(one.notes) for one in running) > seen + 20, "nothing comes"
                    )
                    time.sleep(chance.uniform(0, PAUSE_S_MAX))
                    if kill % 3 != 0:
                        victim = chance.choice(running)
                        victim.kill()
                        if kill % 3 == 1:
                            victim.start()
                    if kill % 3 != 1:
                        broker.kill()
                        broker.start()
                    if kill % 3 == 2:
                        victim.start()
            with BrokerClient(port=broker.queue_port, request_timeout_s=WAIT_S_MAX) as client:
                until(lambda: not unsettled(client), "not everything is settled")
                assert not any(one["name"] == "t.dlq" for one in client.list_subscriptions())
        assert "CRITICAL" not in broker.output()
    return running, publishing.promised


def check_numbers(deliveries: list[Note]) -> None:
    """A message's count never goes back, and never runs ahead of its deliveries. For the notes of one member."""
    last: dict[tuple[int, int], int] = {}
    for note in deliveries:
        place = (note.partition, note.offset)
        assert note.number >= last.get(place, 1), note
        last[place] = note.number


@pytest.mark.timeout(600)
def test_members_and_broker_are_killed_and_nothing_is_lost(tmp_path: Path) -> None:
    running, promised = run_trial(tmp_path, 1, 6, 3)
    seen = {note.text for member in running for note in member.notes}
    assert set(promised) <= seen
    for member in running:
        check_numbers(member.notes)


@pytest.mark.timeout(600)
def test_a_single_member_gets_each_partition_in_order(tmp_path: Path) -> None:
    """What comes for the first time comes in order, whoever is killed; what comes again was not settled."""
    (member,), promised = run_trial(tmp_path, 2, 5, 1)
    assert set(promised) <= {note.text for note in member.notes}
    check_numbers(member.notes)
    for partition in range(PARTITIONS):
        first_times = list(dict.fromkeys(note.offset for note in member.notes if note.partition == partition))
        assert first_times == sorted(first_times)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("seed", range(10, 15))
def test_many_kills(tmp_path: Path, seed: int) -> None:
    running, promised = run_trial(tmp_path, seed, 30, 4)
    assert set(promised) <= {note.text for member in running for note in member.notes}
    for member in running:
        check_numbers(member.notes)


@pytest.mark.timeout(600)
def test_a_death_of_the_member_counts_and_a_death_of_the_broker_does_not(tmp_path: Path) -> None:
    """Each holder takes what is there and dies with it; the third death of a member is one too many."""
    with running_broker(tmp_path) as broker:
        prepare(broker, max_deliveries=3)
        with BrokerClient(port=broker.queue_port, request_timeout_s=WAIT_S_MAX) as client:
            client.publish("t", b"poison", partition=0)
            numbers = []
            for number in range(5):
                holder = Member(broker, tmp_path / f"holder-{number}", "hold")
                until(lambda holder=holder: holder.notes, "the message does not come")
                (note,) = holder.notes
                numbers.append(note.number)
                if number in (1, 3):
                    broker.kill()
                    holder.kill()
                    broker.start()
                else:
                    holder.kill()
            assert numbers == [1, 2, 2, 3, 3]
            until(lambda: not unsettled(client), "it is not given up")
            client.create_subscription("graves", "t.dlq")
            letters = []
            client.subscribe_to_subscription("graves", letters.append)
            until(lambda: letters, "there is no dead letter")
            assert letters[0].body == b"poison"
            assert letters[0].properties["penstock.dead.deliveries"] == "3"
            assert letters[0].properties["penstock.dead.reason"] == "delivered 3 times, never acknowledged"
