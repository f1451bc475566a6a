"""Topics that come, grow and go while everything else runs, and whether the cluster knows at the end what it promised.

A change whose outcome is unknown may or may not have happened; one that was acknowledged has. All brokers agree.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from conditions import until

PREFIX = "extra-"
CALL_S_MAX = 4.0
PAUSE_S = (0.2, 1.2)
PARTITIONS_MAX = 3
KEPT_SHARE = 0.6
TOPICS_MAX = 8
GONE = 0
"""The number of partitions of a topic that is not there."""


class TopicChurn:
    """One thread. `possible` holds for each topic the numbers of partitions that it may have."""

    def __init__(self, bootstraps: list[str], seed: int, rf: int) -> None:
        self.possible: dict[str, set[int]] = {}
        self.done = 0
        """Changes that were acknowledged."""
        self._bootstraps = bootstraps
        self._rng = random.Random(seed)
        self._rf = rf
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def problems(self) -> list[str]:
        """What a broker says that cannot be, or that the brokers never agree."""
        views = [AdminClient({"bootstrap.servers": one, "log_level": 0}) for one in self._bootstraps]
        seen: list[dict[str, int]] = []

        def agree() -> bool:
            try:
                seen[:] = [_topics(view) for view in views]
            except KafkaException:
                return False
            return all(one == seen[0] for one in seen)

        try:
            until(agree, "never")
        except AssertionError:
            return [f"the brokers do not agree on the topics: {seen}"]
        return [
            f"topic {name} has {seen[0].get(name, GONE)} partitions and should have {sorted(counts)}"
            for name, counts in sorted(self.possible.items())
            if seen[0].get(name, GONE) not in counts
        ]

    def _run(self) -> None:
        admin = AdminClient({"bootstrap.servers": ",".join(self._bootstraps), "log_level": 0})
        number = 0
        while not self._stopping.wait(self._rng.uniform(*PAUSE_S)):
            number += 1
            self._change(admin, f"{PREFIX}{number}")
            self._delete_oldest(admin)

    def _delete_oldest(self, admin: AdminClient) -> None:
        """So that a long run does not become one with many topics."""
        present = [name for name, counts in self.possible.items() if GONE not in counts]
        if len(present) > TOPICS_MAX:
            name = present[0]
            self._attempt(name, GONE, lambda: admin.delete_topics([name], request_timeout=CALL_S_MAX)[name])

    def _change(self, admin: AdminClient, name: str) -> None:
        """Create a topic, then add a partition or delete it."""
        count = self._rng.randint(1, PARTITIONS_MAX)
        self.possible[name] = {GONE}
        new = NewTopic(name, count, self._rf)
        self._attempt(name, count, lambda: admin.create_topics([new], request_timeout=CALL_S_MAX)[name])
        if self.possible[name] != {count}:
            return
        if self._rng.random() < KEPT_SHARE:
            more = NewPartitions(name, count + 1)
            self._attempt(
                name, count + 1, lambda: admin.create_partitions([more], request_timeout=CALL_S_MAX)[name]
            )
        else:
            self._attempt(name, GONE, lambda: admin.delete_topics([name], request_timeout=CALL_S_MAX)[name])

    def _attempt(self, name: str, count: int, change: Callable[[], Future[None]]) -> None:
        """A refusal says that nothing has changed, unless the client had asked before without an answer."""
        try:
            change().result(2 * CALL_S_MAX)
        except (KafkaException, TimeoutError):
            self.possible[name] = {*self.possible[name], count}
        else:
            self.possible[name] = {count}
            self.done += 1


def _topics(admin: AdminClient) -> dict[str, int]:
    """The number of partitions of each topic of ours."""
    found = admin.list_topics(timeout=CALL_S_MAX).topics
    return {
        name: len(one.partitions)
        for name, one in found.items()
        if name.startswith(PREFIX)
        and (one.error is None or one.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART)
    }
