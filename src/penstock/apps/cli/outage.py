"""Tells on stderr that the broker is gone, and that it is back. Each once; the client library reconnects by itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.apps.cli.terminal import say

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError

CHECK_SECONDS = 1.0
"""Time between two checks, and how long one of them waits for an answer."""


class Outage:
    """Whether the brokers at an address answer. A failed connection to one of several is not an outage."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_suspected = False
        self._is_reported = False
        self._next_at = 0.0

    def on_error(self, error: KafkaError) -> None:
        """Called by the client library for a failed connection."""
        from confluent_kafka import KafkaError

        if error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            self.suspect()

    def suspect(self) -> None:
        """Something failed: the next `check` asks the brokers."""
        self._is_suspected = True

    def check(self, consumer: Consumer) -> None:
        """While nothing arrives after a failure, ask whether any broker answers, and report a change."""
        from confluent_kafka import KafkaException

        now = time.monotonic()
        if not self._is_suspected or now < self._next_at:
            return
        self._next_at = now + CHECK_SECONDS
        try:
            consumer.list_topics(timeout=CHECK_SECONDS)
        except KafkaException:
            if not self._is_reported:
                self._is_reported = True
                say(f"No broker answers at {self._bootstrap}; retrying.", err=True)
        else:
            self.ended()

    def ended(self) -> None:
        """A broker has answered."""
        self._is_suspected = False
        if self._is_reported:
            self._is_reported = False
            say(f"The broker at {self._bootstrap} answers again.", err=True)
