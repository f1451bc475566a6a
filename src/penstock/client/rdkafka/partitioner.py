"""Which partition a record goes to where the program wants a say. Never chooses where the library's hash does."""

from __future__ import annotations

import time
from collections import Counter

from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.client.errors import BadArgument, ClientError, NotFound
from penstock.client.options import ProducerOptions
from penstock.client.rdkafka.translation import cause, translate

KNOWN_S_MAX = 60.0
"""How long the number of partitions of a topic is taken to be what it was; topics seldom grow."""

APPEARS_S_MAX = 3.0
"""How long to wait for a topic that the broker may be making on demand."""

PAUSE_S = 0.05
_NOT_YET = (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART)


class PartitionChoice:
    """Round robin or the program's function, over as many partitions as the topic has."""

    def __init__(self, producer: Producer, options: ProducerOptions) -> None:
        self._producer = producer
        self._partitioning = options["partitioning"]
        self._request_s_max = options["request_s_max"]
        self._counts: dict[str, tuple[int, float]] = {}
        self._turns: Counter[str] = Counter()

    def must_ask(self, topic: str) -> bool:
        """Whether `choose` would have to ask the broker about this topic."""
        return self._partitioning != "key" and time.monotonic() >= self._counts.get(topic, (0, 0.0))[1]

    def choose(self, topic: str, key: bytes | None, wanted: int | None) -> int | None:
        """The partition, or None where the library decides by the key."""
        if wanted is not None or self._partitioning == "key":
            return wanted
        count = self.count(topic)
        if self._partitioning == "round_robin":
            turn = self._turns[topic]
            self._turns[topic] += 1
            return turn % count
        chosen = self._partitioning(topic, key, count)
        if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen < count:
            raise BadArgument(f"{topic}: the partitioning function gave {chosen!r}; it is 0 to {count - 1}.")
        return chosen

    def count(self, topic: str) -> int:
        """How many partitions a topic has; asks the broker now and then."""
        count, until = self._counts.get(topic, (0, 0.0))
        now = time.monotonic()
        if now >= until:
            count = self._ask(topic, now + APPEARS_S_MAX)
            self._counts[topic] = (count, now + KNOWN_S_MAX)
        return count

    def _ask(self, topic: str, deadline: float) -> int:
        """How many partitions there are; a topic that the broker makes on demand may take a moment."""
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
