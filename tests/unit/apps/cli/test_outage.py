"""A broker that is gone, and back: each told once."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.apps.cli import outage as module
from penstock.apps.cli.outage import Outage


class Brokers:
    """A consumer whose brokers answer or not."""

    answers = True
    asked = 0

    def list_topics(self, timeout: float) -> None:
        self.asked += 1
        if not self.answers:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.0)
    return Brokers()


def test_told_once_each(brokers: Any, capsys: pytest.CaptureFixture[str]) -> None:
    outage = Outage("here:1")
    outage.check(brokers)
    assert brokers.asked == 0, "nothing has failed"
    brokers.answers = False
    outage.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    for _ in range(3):
        outage.check(brokers)
    assert capsys.readouterr().err == "No broker answers at here:1; retrying.\n"
    brokers.answers = True
    for _ in range(3):
        outage.check(brokers)
    assert capsys.readouterr().err == "The broker at here:1 answers again.\n"
    assert brokers.asked == 4


def test_one_broker_of_several_is_no_outage(brokers: Any, capsys: pytest.CaptureFixture[str]) -> None:
    outage = Outage("here:1")
    outage.on_error(KafkaError(KafkaError._TRANSPORT))
    outage.check(brokers)
    outage.on_error(KafkaError(KafkaError._PARTITION_EOF))
    outage.check(brokers)
    assert capsys.readouterr().err == "" and brokers.asked == 1
