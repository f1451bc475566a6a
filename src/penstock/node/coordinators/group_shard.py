"""One partition of the groups' topic: its roster, waiting calls and timers. Independent of the kinds of groups.

Every change goes through `commit`: persist and apply the events, park the caller if it must wait, and answer once
everything persisted for the group so far is durable. A timer per group calls its `decide_tick`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock.core.errors import BrokerError, NotCoordinator, Rebalancing
from penstock.core.machine import (
    NEVER_MS,
    AnswerT,
    Decision,
    GroupMachine,
    Moment,
    Records,
    Waiter,
)
from penstock.core.machines.offsets.roster import Roster
from penstock.node.coordinators.shard import Shard
from penstock.node.replicas.offset_waits import Settled
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import Sliced

logger = logging.getLogger("penstock.groups")

TICK_UNITS = 12
"""Cost of committing a group's timeout, see SLICE_UNITS."""

RETRY_MS = 1_000
"""Delay before a timeout that could not be persisted is retried."""

Answered = Callable[[AnswerT | BrokerError], None]
"""Called once, with the machine's answer or with a BrokerError."""


class GroupShard(Shard[Roster]):
    """Owns every group that hashes to its partition."""

    def __init__(
        self,
        partition: Partition,
        make_roster: Callable[[], Roster],
        records: Records,
        runtime: Runtime,
        settle_offsets: Callable[[GroupShard], Sliced[None]],
    ) -> None:
        super().__init__(partition, make_roster, records, runtime)
        self._settle_offsets = settle_offsets
        """Runs before this shard serves calls: drops the offsets of deleted topics."""
        self.gone_topics: set[str] = set()
        """Topics that were deleted during the replay."""
        self._loop = asyncio.get_running_loop()
        self._waiting_calls: dict[str, dict[Waiter, Answered[Any]]] = {}
        self._timers: dict[str, tuple[int, asyncio.TimerHandle]] = {}
        self._due: deque[str] = deque()

    @property
    def roster(self) -> Roster:
        return self.machine

    # -- leading

    def _resume(self) -> Sliced[None]:
        """Known members get a full session timeout to reconnect. Timers start only after all members have theirs."""
        groups = self.roster.groups
        for group in groups:
            self._apply(group.decide_revive(self.moment()).events)
            yield TICK_UNITS
        yield from self._settle_offsets(self)
        self.gone_topics.clear()
        for group in groups:
            self._arm(group)
            yield 1

    def _on_resign(self, error: NotCoordinator) -> None:
        self.gone_topics.clear()
        self.release(error)

    def release(self, error: NotCoordinator) -> None:
        """Answer every waiting call with the error, and stop the timers."""
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._due.clear()
        waiting, self._waiting_calls = self._waiting_calls, {}
        for calls in waiting.values():
            for answered in calls.values():
                answered(error)

    def moment(self) -> Moment:
        return Moment(int(self._loop.time() * 1000), self._runtime.clock.now_ms())

    # -- changes

    def commit(
        self, group_id: str, decision: Decision[AnswerT], answered: Answered[AnswerT] | None = None
    ) -> None:
        """Persist and apply a decision, then answer its callers; if it cannot be persisted, only the caller is
        answered, with the error."""
        try:
            self.persist(decision.events, group_id)
        except BrokerError as error:
            if answered is None:
                raise
            answered(error)
            return
        if decision.waits is not None:
            assert answered is not None, decision
            self._park(group_id, decision.waits, answered)
        elif answered is not None:
            self._answer(group_id, answered, decision.answer)
        for waiter, answer in decision.replies:
            self._reply(group_id, waiter, answer)
        self._settle_timer(group_id)

    def persist_all(self, events: Sequence[Any], settled: Settled) -> None:
        """Persist and apply events that no member requested, of any number of groups; call back once they are
        durable."""
        try:
            end_offset = self.persist(events, *{event.group_id: None for event in events})
        except BrokerError as error:
            settled(error)
            return
        self.when_persisted(end_offset, settled)

    def _park(self, group_id: str, waiter: Waiter, answered: Answered[Any]) -> None:
        """Park a call until its reply is decided. A repeated call replaces the waiting one, whose client has given
        up."""
        calls = self._waiting_calls.setdefault(group_id, {})
        earlier = calls.pop(waiter, None)
        calls[waiter] = answered
        if earlier is not None:
            earlier(Rebalancing("superseded by a newer request of the same member"))

    def _reply(self, group_id: str, waiter: Waiter, answer: Any) -> None:
        calls = self._waiting_calls.get(group_id, {})
        answered = calls.pop(waiter, None)
        if not calls:
            self._waiting_calls.pop(group_id, None)
        if answered is not None:
            self._answer(group_id, answered, answer)

    def _answer(self, group_id: str, answered: Answered[Any], answer: Any) -> None:
        """Answer once everything persisted for the group is durable: a reply must not precede the state it reports."""
        self.when_persisted(group_id, lambda error: answered(answer if error is None else error))

    # -- time

    def _settle_timer(self, group_id: str) -> None:
        roster = self.machine
        roster.sweep(group_id)
        group = roster.find(group_id)
        if group is not None:
            self._arm(group)

    def _arm(self, group: GroupMachine) -> None:
        """Schedule the group's next tick. An earlier timer is kept: an early tick is harmless."""
        wake_ms = group.wake_ms
        if wake_ms == NEVER_MS:
            return
        armed = self._timers.get(group.id)
        if armed is not None:
            if armed[0] <= wake_ms:
                return
            armed[1].cancel()
        timer = self._loop.call_at((wake_ms + 1) / 1000, partial(self._wake, group.id))
        self._timers[group.id] = wake_ms, timer

    def _wake(self, group_id: str) -> None:
        """A timer fired. Thousands may fire in one loop iteration, so ticks run in slices."""
        self._due.append(group_id)
        if len(self._due) == 1:
            self._runtime.slices.queue(self._tick_due(), _ignore)

    def _tick_due(self) -> Sliced[None]:
        while self._due:
            self._tick(self._due[0])
            if self._due:
                self._due.popleft()
            yield TICK_UNITS

    def _tick(self, group_id: str) -> None:
        self._timers.pop(group_id, None)
        group = self.roster.find(group_id)
        if group is None:
            return
        try:
            self.commit(group_id, group.decide_tick(self.moment()))
        except BrokerError as error:
            if error.retriable:
                logger.warning(
                    "cannot persist group timeout, retrying in %.0f s: %s",
                    RETRY_MS / 1000,
                    error,
                    extra={"group": group_id, "partition": str(self.partition)},
                )
                again_ms = self.moment().now_ms + RETRY_MS
                self._timers[group_id] = (
                    again_ms,
                    self._loop.call_at(again_ms / 1000, partial(self._wake, group_id)),
                )
            else:
                logger.error(
                    "cannot persist group timeout; stopped coordinating the groups of this partition: %s",
                    error,
                    extra={"group": group_id, "partition": str(self.partition)},
                )
                self.release(NotCoordinator(f"{self.partition} is no longer coordinated here"))


def _ignore(outcome: object) -> None:
    """Ticks have no caller to answer."""
