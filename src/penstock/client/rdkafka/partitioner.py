"""Selects partitions for `round_robin` and custom functions. librdkafka partitions by key itself."""

from __future__ import annotations

import time
from collections import Counter

from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.client.errors import BadArgument, ClientError, NotFound
from penstock.client.options import ProducerOptions
from penstock.client.rdkafka.translation import cause, translate

KNOWN_S_MAX = 60.0
"""How long the partition count of a topic is cached."""

APPEARS_S_MAX = 3.0
"""How long to wait for a topic that the broker may be auto-creating."""

PAUSE_S = 0.05
_NOT_YET = (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART)


class PartitionChoice:
    """Round robin or a custom function over the partitions of a topic."""

    def __init__(self, producer: Producer, options: ProducerOptions) -> None:
        self._producer = producer
        self._partitioning = options["partitioning"]
        self._request_s_max = options["request_s_max"]
        self._counts: dict[str, tuple[int, float]] = {}
        self._turns: Counter[str] = Counter()

    def must_ask(self, topic: str) -> bool:
        """Whether `choose` would block on a metadata request for this topic."""
        return self._partitioning != "key" and time.monotonic() >= self._counts.get(topic, (0, 0.0))[1]

    def choose(self, topic: str, key: bytes | None, wanted: int | None) -> int | None:
        """The partition, or None if librdkafka partitions by key."""
        if wanted is not None or self._partitioning == "key":
            return wanted
        count = self.count(topic)
        if self._partitioning == "round_robin":
            turn = self._turns[topic]
            self._turns[topic] += 1
            return turn % count
        chosen = self._partitioning(topic, key, count)
        if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen < count:
            raise BadArgument(
                f"{topic}: the partitioning function returned {chosen!r}: expected 0 to {count - 1}."
            )
        return chosen

    def count(self, topic: str) -> int:
        """Partition count of a topic, refreshed from the broker every KNOWN_S_MAX."""
        count, until = self._counts.get(topic, (0, 0.0))
        now = time.monotonic()
        if now >= until:
            count = self._fetch_count(topic, now + APPEARS_S_MAX)
            self._counts[topic] = (count, now + KNOWN_S_MAX)
        return count

    def _fetch_count(self, topic: str, deadline: float) -> int:
        """Partition count from the broker; retried while the topic is being created."""
        while True:
            try:
                found = self._producer.list_topics(topic, timeout=self._request_s_max).topics[topic]
            except KafkaException as error:
                raise translate(cause(error), topic) from error
            if found.error is None and found.partitions:
                return len(found.partitions)
            if time.monotonic() > deadline or (found.error and found.error.code() not in _NOT_YET):
                raise self._refusal(topic, found.error)
            time.sleep(PAUSE_S)

    @staticmethod
    def _refusal(topic: str, error: KafkaError | None) -> ClientError:
        return translate(error, topic) if error is not None else NotFound(f"{topic}: there is no such topic.")
