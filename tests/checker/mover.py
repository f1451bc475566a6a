"""Partitions that move between brokers while everything else runs, those of coordinators too.

A move that is refused or whose outcome is unknown does no harm. At the end all of them must have come to an end.
"""

from __future__ import annotations

import random
import threading

from conditions import until
from e2e.move_clients import leaders, ongoing, raw_cluster, reassign
from penstock.client.errors import ClientError

COORDINATORS = ("__consumer_offsets", "__transaction_state", "__subscriptions")
PAUSE_S = (0.5, 2.5)
CANCEL_SHARE = 1 / 8


class Mover:
    """One thread, which moves one partition after the other to any broker."""

    def __init__(self, bootstrap: str, topics: list[str], nodes: int, seed: int) -> None:
        self.started = 0
        """Moves that were accepted."""
        self._bootstrap = bootstrap
        self._topics = [*topics, *COORDINATORS]
        self._nodes = nodes
        self._rng = random.Random(f"moves {seed}")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def problems(self) -> list[str]:
        """Moves that never end."""
        with raw_cluster(self._bootstrap) as cluster:

            def is_over() -> bool:
                try:
                    return not ongoing(cluster)
                except ClientError:
                    return False

            try:
                until(is_over, "never")
            except AssertionError:
                return ["partitions are still moving long after the end"]
        return []

    def _run(self) -> None:
        with raw_cluster(self._bootstrap) as cluster:
            while not self._stopping.wait(self._rng.uniform(*PAUSE_S)):
                topic, target = self._rng.choice(self._topics), self._rng.randint(1, self._nodes)
                place, is_cancelled = self._rng.random(), self._rng.random() < CANCEL_SHARE
                try:
                    count = len(leaders(cluster, topic))
                    if not count:
                        continue  # an internal topic that nobody has needed yet
                    index = int(place * count)
                    if not any(reassign(cluster, topic, {index: [target]})):
                        self.started += 1
                    if is_cancelled:
                        reassign(cluster, topic, {index: None})
                except ClientError:
                    continue
