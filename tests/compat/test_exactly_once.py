"""Exactly once, counted: consume-transform-produce while members are killed and the broker dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat.roster import CONFLUENT, JAVA
from compat.runtimes import java_command
from compat.transactors import TESTS_DIR, read_to_end
from compat.vocabulary import WAIT_S, MissingRuntime
from penstock.testing import Broker, running_broker

PARTITIONS = 2
RECORDS = 400
DONE_S_MAX = 120.0
TRANSACTION_MS = 3_000
"""So long those that take over have to wait for what a killed member left open."""
SOURCE, TARGET = "source", "target"


class Crew:
    """The members at work. `copied` counts the records of transactions that they know to be committed."""

    def __init__(self, client: str, bootstrap: str) -> None:
        self._client = client
        self._bootstrap = bootstrap
        self._started = 0
        self.members: list[subprocess.Popen[bytes]] = []
        self.copied = 0
        self._changed = threading.Condition()

    def hire(self) -> subprocess.Popen[bytes]:
        """One more member, with a transactional id of its own, as KIP-447 has it."""
        self._started += 1
        options = json.dumps(
            {
                "id": f"copier-{self._started}",
                "group": "copiers",
                "session_ms": 6_000,
                "timeout_ms": TRANSACTION_MS,
                "source": SOURCE,
                "target": TARGET,
            }
        )
        member = subprocess.Popen(
            self._command(options), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=TESTS_DIR
        )
        self.members.append(member)
        threading.Thread(target=self._listen, args=(member,), daemon=True).start()
        return member

    def _command(self, options: str) -> list[str]:
        if self._client == JAVA:
            return java_command(self._bootstrap, options, program="Copier")
        program = os.fspath(TESTS_DIR / "compat" / "clients" / "copier.py")
        return [sys.executable, program, self._bootstrap, options]

    def _listen(self, member: subprocess.Popen[bytes]) -> None:
        assert member.stdout is not None
        for line in member.stdout:
            with self._changed:
                self.copied += int(line)
                self._changed.notify_all()

    def until_copied(self, count: int) -> None:
        """Wait until members have said so."""
        deadline = time.monotonic() + DONE_S_MAX
        with self._changed:
            while self.copied < count:
                assert time.monotonic() < deadline, f"{self.copied} of {count} were copied"
                self._changed.wait(1.0)
                self.replace_leavers()

    def replace_leavers(self) -> None:
        """Those that could not go on, as a supervisor would."""
        for member in [one for one in self.members if one.poll() is not None]:
            self.members.remove(member)
            self.hire()

    def kill_one(self) -> None:
        member = self.members.pop(0)
        member.kill()
        member.wait()

    def dismiss(self) -> None:
        while self.members:
            self.kill_one()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path, transaction_check_ms=100, group_session_ms_min=1_000) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for one in admin.create_topics([NewTopic(SOURCE, PARTITIONS), NewTopic(TARGET, PARTITIONS)]).values():
            one.result(WAIT_S)
        yield running


def fill(broker: Broker, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for number in range(first, first + count):
        producer.produce(SOURCE, str(number), partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0


def copies(broker: Broker) -> Counter[int]:
    values = [value for index in range(PARTITIONS) for value in read_to_end(broker.bootstrap, TARGET, index)]
    return Counter(int(value) for value in values)


@pytest.mark.parametrize("client", [CONFLUENT, JAVA])
def test_every_record_is_copied_once(broker: Broker, client: str) -> None:
    crew = Crew(client, broker.bootstrap)
    half = RECORDS // 2
    try:
        try:
            crew.hire()
        except MissingRuntime as missing:
            if os.environ.get("PENSTOCK_REQUIRE_CLIENTS") == "1":
                pytest.fail(str(missing))
            pytest.skip(str(missing))
        crew.hire()
        fill(broker, 0, half)
        crew.until_copied(half // 4)
        crew.kill_one()
        crew.hire()
        crew.until_copied(half // 2)
        broker.kill()
        broker.start()
        fill(broker, half, RECORDS - half)
        deadline = time.monotonic() + DONE_S_MAX
        while sum((found := copies(broker)).values()) < RECORDS:
            assert time.monotonic() < deadline, f"{sum(found.values())} of {RECORDS} arrived"
            crew.replace_leavers()
    finally:
        crew.dismiss()
    assert copies(broker) == Counter(range(RECORDS))
