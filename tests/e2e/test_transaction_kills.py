"""kill -9 of the broker again and again while a client commits: every transaction is whole or not at all."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat.transactors import read_to_end
from penstock.testing import Broker, running_broker

TOPIC = "ledger"
WAIT_S = 20.0
KILLS = 6


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path, transaction_check_ms=100) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 2)])[TOPIC].result(WAIT_S)
        yield running


class Ledger:
    """Books the same entry on both sides, in a transaction, over and over."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.told: dict[str, str] = {}
        self.progress = threading.Semaphore(0)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Ledger:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            producer = Producer(
                {
                    "bootstrap.servers": self._bootstrap,
                    "transactional.id": "ledger",
                    "linger.ms": 0,
                    "reconnect.backoff.max.ms": 100,
                    "log_level": 0,
                    "error_cb": lambda _: None,
                }
            )
            try:
                producer.init_transactions(WAIT_S)
                while not self._stopping.is_set():
                    self._book(producer, number)
                    number += 1
            except KafkaException:
                number += 1

    def _book(self, producer: Producer, number: int) -> None:
        """A transaction that cannot be finished has an outcome that nobody was told; the next producer goes on."""
        entry, commit = str(number), number % 4 != 3
        self.told[entry] = "nothing"
        producer.begin_transaction()
        for side in (0, 1):
            producer.produce(TOPIC, entry, partition=side)
        if commit:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)
        self.told[entry] = "committed" if commit else "aborted"
        self.progress.release()


def test_every_transaction_is_whole_or_not_at_all(broker: Broker) -> None:
    with Ledger(broker.bootstrap) as ledger:
        for kill in range(KILLS):
            for _ in range(3 + kill):
                assert ledger.progress.acquire(timeout=60), "no transaction was completed"
            broker.kill()
            broker.start()
        for _ in range(5):
            assert ledger.progress.acquire(timeout=60), "no transaction was completed after the last kill"
    left, right = (read_to_end(broker.bootstrap, TOPIC, side) for side in (0, 1))
    assert Counter(left) == Counter(right) and max(Counter(left).values()) == 1
    for entry, told in ledger.told.items():
        if told != "nothing":
            assert (entry in left) == (told == "committed"), f"{entry} was {told}"
