"""Waits at other brokers for records, for all readers here: a few polls per broker, however many readers wait.

Whoever comes while all long polls are under way waits in a short one, not behind them. When it ends, it takes along
everybody who waits, so that idle readers gather in long polls again.

A watch ends with what the other broker found, with an error, or when its reader has left. Nobody is told twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from penstock.core.errors import BrokerError
from penstock.core.limits import (
    FORWARD_MS_MAX,
    FORWARDED_READ_BYTES_MAX,
    WATCHED_PARTITIONS_MAX,
    WATCHES_MAX,
)
from penstock.core.model import Isolation, PartitionId
from penstock.node.peers.peer_calls import RemoteBatches, WantedBatches, fetch_each
from penstock.node.remote.leaders import Leaders
from penstock.node.runtime.tasks import Tasks

WATCH_MS = 1_000
"""Wait of one long poll; readers that have left meanwhile are forgotten after it."""
SHORT_WATCH_MS = 25
"""The same of the short poll: bounds how long a partition with records waits behind idle ones."""
WATCH_BYTES_MAX = 64 << 10
"""Records of one partition that a long poll returns: a tailing reader needs no second round trip."""

Noticed = Callable[[RemoteBatches | BrokerError], None]


class _Queue(NamedTuple):
    """Readers of one broker at one isolation level wait together."""

    broker_id: int
    isolation: Isolation


class _Spot(NamedTuple):
    """A place in a partition; all readers that wait there share one entry."""

    partition: PartitionId
    offset: int


class Watch:
    """One reader that waits for records from an offset on."""

    __slots__ = ("is_over", "noticed")

    def __init__(self, noticed: Noticed) -> None:
        self.noticed = noticed
        self.is_over = False

    def end(self) -> None:
        """The reader has left: it is not called any more."""
        self.is_over = True


_Spots = dict[_Spot, list[Watch]]


class _Polls:
    """The polls of one queue that are under way."""

    __slots__ = ("has_short", "long_count")

    def __init__(self) -> None:
        self.long_count = 0
        self.has_short = False


class Watches:
    """All watches of one broker."""

    def __init__(self, leaders: Leaders) -> None:
        self._leaders = leaders
        self._tasks = Tasks()
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[_Queue, _Spots] = {}
        """What the next poll asks for."""
        self._polls: dict[_Queue, _Polls] = {}

    def add(self, partition: PartitionId, offset: int, isolation: Isolation, noticed: Noticed) -> Watch:
        """Call `noticed` once: when there are records from `offset` on, or with the error. Raises UnknownTopic,
        LeaderNotAvailable."""
        queue = _Queue(self._leaders.find(partition), isolation)
        watch = Watch(noticed)
        if queue.broker_id == self._leaders.node_id:
            self._loop.call_soon(_notice, [watch], RemoteBatches(memoryview(b""), -1, -1, -1, ()))
            return watch
        if queue not in self._waiting:
            self._waiting[queue] = {}
            self._loop.call_soon(self._begin, queue)  # whoever comes in this turn joins the same poll
        self._waiting[queue].setdefault(_Spot(partition, offset), []).append(watch)
        return watch

    def _begin(self, queue: _Queue) -> None:
        """Start a poll for those that wait; a short one, if enough long ones are in flight. Whoever waits during the
        short one joins the poll after it."""
        polls = self._polls.setdefault(queue, _Polls())
        if polls.has_short:
            return
        waiting = self._waiting.pop(queue, {})
        spots = {
            spot: alive for spot, some in waiting.items() if (alive := [w for w in some if not w.is_over])
        }
        if not spots:
            return
        taken = dict(list(spots.items())[:WATCHED_PARTITIONS_MAX])
        is_short = polls.long_count >= WATCHES_MAX
        if is_short:
            polls.has_short = True
        else:
            polls.long_count += 1
        self._tasks.spawn(self._poll(queue, taken, is_short=is_short))
        rest = {spot: some for spot, some in spots.items() if spot not in taken}
        if rest:
            self._waiting[queue] = rest
            self._begin(queue)

    async def _poll(self, queue: _Queue, spots: _Spots, *, is_short: bool) -> None:
        ordered = list(spots)
        outcomes: list[RemoteBatches | BrokerError]
        try:
            outcomes = await fetch_each(
                self._leaders.links,
                queue.broker_id,
                [WantedBatches(*spot) for spot in ordered],
                bytes_max=FORWARDED_READ_BYTES_MAX,
                partition_bytes_max=WATCH_BYTES_MAX,
                wait_ms=SHORT_WATCH_MS if is_short else WATCH_MS,
                timeout_ms=FORWARD_MS_MAX,
                isolation=queue.isolation,
            )
        except BrokerError as error:
            outcomes = [error] * len(ordered)
        finally:
            polls = self._polls[queue]
            if is_short:
                polls.has_short = False
            else:
                polls.long_count -= 1
        again: _Spots = {}
        for spot, outcome in zip(ordered, outcomes, strict=True):
            if isinstance(outcome, BrokerError) or _is_news(outcome, spot.offset, queue.isolation):
                _notice(spots[spot], outcome)
            else:
                again[spot] = spots[spot]
        waiting = self._waiting.setdefault(queue, {})
        for spot, some in again.items():
            waiting.setdefault(spot, []).extend(some)
        self._begin(queue)


def _is_news(found: RemoteBatches, offset: int, isolation: Isolation) -> bool:
    """Whether a reader at this offset can go on. There may be records that did not fit into the response."""
    end = found.last_stable_offset if isolation is Isolation.READ_COMMITTED else found.high_watermark
    return bool(found.records) or end > offset


def _notice(watches: list[Watch], outcome: RemoteBatches | BrokerError) -> None:
    for watch in watches:
        if not watch.is_over:
            watch.is_over = True
            watch.noticed(outcome)
