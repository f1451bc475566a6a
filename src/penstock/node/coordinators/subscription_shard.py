"""One partition of the subscriptions' topic and the book that lives on it. Keeps, applies, tells when; never decides.

What members settle is appended many at a time and flushed with all else that waits; nobody is made to wait for it who
did not ask to be told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from penstock.core.errors import BrokerError
from penstock.core.machines.subscription_book import SubscriptionBook
from penstock.core.machines.subscription_definitions import BOOK_RECORDS
from penstock.node.coordinators.shard import Shard
from penstock.node.partition import Partition
from penstock.node.replicas.offset_waits import Settled
from penstock.node.runtime import Runtime


class SubscriptionShard:
    """Owns the subscriptions whose names hash to its partition."""

    def __init__(self, partition: Partition, runtime: Runtime) -> None:
        self.partition = partition
        self.book = SubscriptionBook()
        self._shard: Shard[Any] = Shard(
            partition, self.book, BOOK_RECORDS.encode, BOOK_RECORDS.decode, runtime
        )
        self._end_offset = 0

    def recover(self) -> None:
        self._shard.replay()

    def check_ready(self) -> None:
        self._shard.check_ready()

    def keep(self, events: Iterable[Any]) -> int:
        """Append what is kept, then apply everything; returns the offset that must be durable before it counts.

        Raises, with nothing applied, when it cannot append.
        """
        self._shard.check_ready()
        events = list(events)
        kept = [event for event in events if BOOK_RECORDS.keeps(event)]
        if kept:
            self._end_offset = self._shard.append(kept)
        self.apply(events)
        return self._end_offset

    def apply(self, events: Iterable[Any]) -> None:
        """Make events happen of which nothing is kept."""
        for event in events:
            self.book.apply(event)

    def when_kept(self, settled: Settled) -> None:
        """Call back once everything that was decided so far is durable; at once, if it is."""
        self.partition.when_committed(self._end_offset, settled)

    async def kept(self) -> None:
        """Wait for the same; raises what went wrong."""
        done: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
        self.when_kept(done.set_result)
        error = await done
        if error is not None:
            raise error
