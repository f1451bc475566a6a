"""One partition that this broker leads and others replicate: commits as they fetch, changes its ISR, and hands over.

A replica that is in sync joins the ISR at once, unless that moves the leader to another broker. Then:

    COPYING ── the rest fits into one fetch ──▶ PAUSED ── copies are equal ──▶ PROPOSED ── committed ──▶ moved
       ▲                                          │                               │
       └────────── too slow, or refused ──────────┴───────────────────────────────┘
While it is paused the partition accepts no records (NotLeader, nothing is written), so at the moment of the change
every record is acknowledged, committed and on the next leader: none is lost with any `acks`, and none is written twice.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from penstock.core.machines.cluster.partition_state import IsrChange
from penstock.core.replication.tracker import FollowerFetch, ReplicaTracker
from penstock.node.replicas.partition import Partition

PAUSE_S_MAX = 1.0
"""How long a partition accepts no records while the copies catch up with its end."""
RETRY_S_MIN, RETRY_S_MAX = 1.0, 30.0
"""Delay before the next attempt; it doubles with each one."""


class LeaderHost(Protocol):
    """What a led partition needs from its host."""

    def wanted_change(self, led: LedPartition) -> IsrChange | None:
        """The change of the ISR that should be made; None if there is none, or it may not be made yet."""

    def propose(self, led: LedPartition, change: IsrChange) -> None:
        """Make the change. Calls `settled` once its outcome is known."""

    def release(self, partition: Partition) -> None:
        """Let the partition accept records again, unless another broker may lead it already."""

    def paused(self, seconds: float) -> None:
        """A pause has ended, with or without success."""


class LedPartition:
    """The leader's side of one partition in one leader epoch. `host` makes the changes of the ISR."""

    def __init__(self, partition: Partition, tracker: ReplicaTracker, host: LeaderHost) -> None:
        self.partition = partition
        self.tracker = tracker
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._retry_s = 0.0
        self._pause_s = RETRY_S_MIN
        self._served: dict[int, int] = {}
        """Broker → everything before this offset was sent to it."""
        self._is_paused = False
        self._paused_s = 0.0
        self._is_proposed = False
        """A handover is proposed, and its outcome unknown."""
        self._is_ended = False

    def fetched(self, broker_id: int, fetch: FollowerFetch, served_offset: int) -> None:
        """A replica has fetched, and gets the records up to `served_offset`."""
        tracker, partition = self.tracker, self.partition
        tracker.note_fetch(broker_id, fetch, partition.log.end_offset, self._loop.time())
        self._served[broker_id] = served_offset
        partition.commit()
        if self._is_paused:
            self._try()
        elif broker_id not in tracker.placed.isr or tracker.placed.is_recovering:
            self.consider()

    def consider(self) -> None:
        """Change the ISR if a replica has caught up or fallen behind."""
        if self._is_paused or self._is_ended:
            return
        if self._is_near() and self._loop.time() >= self._retry_s:
            self._pause()
            return
        change = self._host.wanted_change(self)
        if change is not None and self.tracker.moves_leader(change):
            change = self.tracker.without_move(change)
        if change is not None:
            self._host.propose(self, change)

    def bytes_left(self) -> int:
        """How much of the log the slowest replica that is being added still has to copy."""
        offsets = []
        for one in self.tracker.placed.adding:
            fetch = self.tracker.find(one)
            offsets.append(0 if fetch is None else fetch.offset)
        return bytes_after(self.partition, min(offsets)) if offsets else 0

    # -- hand over

    def _is_near(self) -> bool:
        """Whether another broker will lead once the move is complete, and the rest of every copy is on its way."""
        placed, end_offset = self.tracker.placed, self.partition.log.end_offset
        return (
            placed.leader in placed.removing
            and bool(placed.adding)
            and all(self._served.get(one, -1) >= end_offset for one in placed.adding)
        )

    def _pause(self) -> None:
        self._is_paused = True
        self._paused_s = self._loop.time()
        self.partition.set_writable(is_writable=False)
        # The last records become committed when they are flushed here.
        self.partition.add_listener(self._try)
        self._timer = self._loop.call_later(PAUSE_S_MAX, self._give_up)
        self._try()

    def _try(self) -> None:
        partition = self.partition
        if not self._is_paused or self._is_proposed or self._is_ended:
            return
        log = partition.log
        if log.high_watermark < log.end_offset or not self.tracker.are_equal(
            log.start_offset, log.end_offset
        ):
            return
        change = self._host.wanted_change(self)
        if change is not None and self.tracker.moves_leader(change):
            self._is_proposed = True
            self._host.propose(self, change)

    def _give_up(self) -> None:
        if not self._is_proposed:
            self._resume()

    def settled(self) -> None:
        """The outcome of a change is known: go on leading, unless the partition is placed anew."""
        was_proposed, self._is_proposed = self._is_proposed, False
        if self._is_ended:
            return
        self.partition.commit()
        if was_proposed:
            self._resume()

    def _resume(self) -> None:
        self._release()
        self._host.release(self.partition)
        self._retry_s = self._loop.time() + self._pause_s
        self._pause_s = min(2 * self._pause_s, RETRY_S_MAX)

    def _release(self) -> None:
        if self._is_paused:
            self._host.paused(self._loop.time() - self._paused_s)
        self._is_paused = False
        self.partition.remove_listener(self._try)
        if self._timer is not None:
            self._timer.cancel()

    def end(self) -> None:
        """The partition is not led here any more, or in a later epoch."""
        self._is_ended = True
        self._release()


def bytes_after(partition: Partition, offset: int) -> int:
    """Bytes of the log after an offset, with the precision of segments and index entries."""
    total = 0
    for segment in partition.log.segments:
        if segment.next_offset <= offset:
            continue
        if segment.base_offset >= offset:
            total += segment.size
        else:
            found = segment.find(offset, segment.size)
            total += 0 if found is None else segment.size - found.position
    return total
