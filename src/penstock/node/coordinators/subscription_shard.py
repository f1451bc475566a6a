"""One partition of the subscriptions' topic and its book of subscriptions. Decides nothing.

Acknowledgements are appended in batches and share flushes; only members that request a confirmation wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.core.errors import NotCoordinator
from penstock.core.machines.subscriptions.book import SubscriptionBook
from penstock.core.machines.subscriptions.definitions import BOOK_RECORDS, SubscriptionDefinition
from penstock.node.coordinators.shard import Shard
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import Sliced

REVIVE_UNITS = 24
"""Cost of activating one subscription, see SLICE_UNITS."""

Revive = Callable[["SubscriptionShard", SubscriptionDefinition], None]
Close = Callable[["SubscriptionShard", NotCoordinator], None]


class SubscriptionShard(Shard[SubscriptionBook]):
    """Owns the subscriptions whose names hash to its partition. They are activated before it serves calls, and closed
    when it resigns."""

    def __init__(self, partition: Partition, runtime: Runtime, revive: Revive, close: Close) -> None:
        super().__init__(partition, SubscriptionBook, BOOK_RECORDS, runtime)
        self._revive = revive
        self._close = close

    @property
    def book(self) -> SubscriptionBook:
        return self.machine

    def _resume(self) -> Sliced[None]:
        for name in [definition.name for definition in self.book.definitions]:
            definition = self.book.find(name)
            if definition is not None:  # otherwise its topic has just been deleted
                self._revive(self, definition)
            yield REVIVE_UNITS

    def _on_resign(self, error: NotCoordinator) -> None:
        self._close(self, error)

    def apply(self, events: Iterable[Any]) -> None:
        """Apply volatile events."""
        self._apply(events)
