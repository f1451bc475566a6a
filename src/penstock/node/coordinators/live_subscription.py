"""One active subscription: dispatches messages, settles acknowledgements, runs hold timeouts. Speaks no protocol.

Work runs in turns, at most one per loop iteration: first everything that members settled is decided and persisted, for
all partitions together, then messages are dispatched as far as the windows allow. A returned message is not
redelivered before its return is durable: otherwise a crash would lose a delivery from its count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast

from penstock.core.errors import BrokerError, InvalidRequest, NotCoordinator, UnknownMember
from penstock.core.machine import NEVER_MS, Decision
from penstock.core.machines.subscriptions.definitions import SubscriptionDefinition
from penstock.core.machines.subscriptions.events import Freed
from penstock.core.machines.subscriptions.subscription import DeadLetter, Delivery, Outcome
from penstock.core.model import Record
from penstock.node.coordinators.subscription_feed import FeedSource, SubscriptionFeed
from penstock.node.coordinators.subscription_shard import SubscriptionShard
from penstock.node.replicas.offset_waits import Settled

logger = logging.getLogger("penstock.subscriptions")

TURN_COUNT_MAX = 512
TURN_BYTES_MAX = 1 << 20
"""Limits of what one partition dispatches per turn."""

RETRY_S = 1.0
"""Delay before a failed write or read is retried."""


class Delivered(NamedTuple):
    """A message for a member; `number` counts its deliveries, this one included."""

    partition: int
    record: Record
    number: int


class Recipient(Protocol):
    """Receives the messages of one member."""

    def deliver(self, subscription: str, messages: Sequence[Delivered]) -> None:
        """Deliver messages, which the member holds from now on."""

    def end(self, subscription: str, error: BrokerError) -> None:
        """No more messages: the subscription was deleted, or its partition failed."""


Buried = Callable[[SubscriptionFeed, Sequence[DeadLetter]], None]
"""Takes messages that go to the dead letter topic."""


FindSource = Callable[[int], FeedSource]
"""Returns the source of a partition of the topic, wherever it is led now."""


class LiveSubscription:
    """Created for each subscription when its shard leads, and when a subscription is created."""

    def __init__(
        self,
        definition: SubscriptionDefinition,
        shard: SubscriptionShard,
        find_source: FindSource,
        bury: Buried,
    ) -> None:
        self.name = definition.name
        self.shard = shard
        self.feeds: list[SubscriptionFeed] = []
        self._find_source = find_source
        self._bury = bury
        self._loop = asyncio.get_running_loop()
        self._recipients: dict[str, Recipient] = {}
        self._windows: dict[str, int] = {}
        self._leaving: dict[str, bool] = {}
        """Members that have left, and whether their held messages count as delivered."""
        self._awaiting_settlement: list[Settled] = []
        """Callbacks that wait until everything settled so far is durable."""
        self.is_closed = False
        self._is_due = False
        self._first = 0
        self._timer: tuple[int, asyncio.TimerHandle] | None = None
        self.extend()

    @property
    def definition(self) -> SubscriptionDefinition:
        return self.shard.book.get(self.name)

    def extend(self) -> None:
        """Add feeds for partitions that have none yet."""
        machines = self.shard.book.machines(self.name)
        for machine in machines[len(self.feeds) :]:
            feed = SubscriptionFeed(machine, self._find_source(machine.feed.partition), self._turn_soon)
            self.feeds.append(feed)
            if self._recipients:
                feed.partition.add_listener(self._turn_soon)

    def follow_leader(self, index: int) -> None:
        """The leader of a partition has changed: read it from there."""
        if index < len(self.feeds):
            feed = self.feeds[index]
            feed.partition.remove_listener(self._turn_soon)
            feed.use(self._find_source(index))
            if self._recipients:
                feed.partition.add_listener(self._turn_soon)
                self._turn_soon()

    def recover(self) -> None:
        """Resume writing messages that were on their way to the dead letter topic."""
        for feed in self.feeds:
            machine = feed.machine
            if machine.dying:
                self._bury(feed, [DeadLetter(one, machine.mark(one).deliveries) for one in machine.dying])

    # -- members

    def join(self, member_id: str, window: int, recipient: Recipient) -> None:
        """Add a member; it receives messages from now on."""
        self.shard.check_ready()
        if self.is_closed:
            raise NotCoordinator(f"subscription {self.name!r} is no longer served here")
        if member_id in self._recipients:
            raise InvalidRequest(f"{member_id!r} is already a member of subscription {self.name!r}")
        if not self._recipients:
            for feed in self.feeds:
                feed.partition.add_listener(self._turn_soon)
        self._recipients[member_id] = recipient
        self._windows[member_id] = window
        self._put_window(member_id, window)

    def pause(self, member_id: str) -> None:
        """Deliver no more for now: the member does not read."""
        self._put_window(member_id, 0)

    def resume(self, member_id: str) -> None:
        if member_id in self._windows:
            self._put_window(member_id, self._windows[member_id])

    def _put_window(self, member_id: str, window: int) -> None:
        if self.is_closed:
            return  # the shard may host another machine now
        self.shard.apply(self.feeds[0].machine.decide_join(member_id, window))
        self._turn_soon()

    def leave(self, member_id: str, *, is_counted: bool, settled: Settled) -> None:
        """Remove a member; calls back once everything that it settled is durable."""
        if self.is_closed or self._recipients.pop(member_id, None) is None:
            settled(UnknownMember(f"subscription {self.name!r} has no member {member_id!r}"))
            return
        del self._windows[member_id]
        self._put_window(member_id, 0)
        self._leaving[member_id] = is_counted
        if not self._recipients:
            self._stop_listening()
        try:
            self._settle()
        except BrokerError as error:
            self._stall(error)
            settled(error)
            return
        self.shard.when_persisted(self.shard.end_offset, settled)

    def _stop_listening(self) -> None:
        for feed in self.feeds:
            feed.partition.remove_listener(self._turn_soon)

    def acknowledge(
        self, member_id: str, partition: int, offset: int, outcome: Outcome, complaint: str | None = None
    ) -> None:
        """Settle a message that the member holds. Raises NotHeld if it does not hold it."""
        self._feed(partition).claim(member_id, offset, outcome, complaint)
        self._turn_soon()

    def renew(self, member_id: str, partition: int, offset: int) -> None:
        """Extend the time that the member may hold a message."""
        machine = self._feed(partition).machine
        events = machine.decide_renew(member_id, [offset], self._now_ms())
        if not self.is_closed:
            self.shard.apply(events)

    def when_settled(self, settled: Settled) -> None:
        """Call back once everything that members have settled so far is durable."""
        self._awaiting_settlement.append(settled)
        self._turn_soon()

    def _feed(self, partition: int) -> SubscriptionFeed:
        if not 0 <= partition < len(self.feeds):
            raise InvalidRequest(f"the topic of subscription {self.name!r} has no partition {partition}")
        return self.feeds[partition]

    def retire(self, error: BrokerError) -> None:
        """The broker is stopping: persist the acknowledgements, then close."""
        try:
            self._settle()
        except BrokerError as failure:
            logger.warning(
                "acknowledgements lost during shutdown: %s", failure, extra={"subscription": self.name}
            )
        self.close(error)

    def close(self, error: BrokerError) -> None:
        """Stop, and end all members with the error. Held messages are redelivered later, without counting this
        delivery."""
        self.is_closed = True
        self._stop_listening()
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None
        waiting, self._awaiting_settlement = self._awaiting_settlement, []
        for settled in waiting:
            settled(error)
        recipients, self._recipients = self._recipients, {}
        for recipient in recipients.values():
            recipient.end(self.name, error)

    # -- turns

    def _turn_soon(self) -> None:
        if not self._is_due and not self.is_closed:
            self._is_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_due = False
        if self.is_closed:
            return
        try:
            self._settle()
            self._notify_settled()
            self._dispatch()
        except BrokerError as error:
            self._stall(error)
        else:
            self._arm()

    def _notify_settled(self) -> None:
        waiting, self._awaiting_settlement = self._awaiting_settlement, []
        for settled in waiting:
            self.shard.when_persisted(self.shard.end_offset, settled)

    def _stall(self, error: BrokerError) -> None:
        """A write or read failed: retry later, or close if the shard's partition is offline."""
        if self.shard.partition.failure is not None:
            logger.error(
                "subscription stopped: its partition %s is offline: %s",
                self.shard.partition,
                error,
                extra={"subscription": self.name},
            )
            self.close(error)
            return
        logger.warning(
            "subscription stalled, retrying in %.0f s: %s", RETRY_S, error, extra={"subscription": self.name}
        )
        self._loop.call_later(RETRY_S, self._turn_soon)

    def _settle(self) -> None:
        """Decide acknowledgements, expired holds, departed members and truncated records, in this order; decisions
        that are independent of each other are persisted together."""
        claimed = [(feed, feed.machine.decide_settle_all(feed.claims)) for feed in self.feeds if feed.claims]
        if claimed:
            self._commit(claimed)
            for feed, _ in claimed:
                feed.take_claims()
        now_ms = self._now_ms()
        late = [
            (feed, feed.machine.decide_tick(now_ms)) for feed in self.feeds if feed.machine.wake_ms <= now_ms
        ]
        self._commit(late)
        while self._leaving:
            member_id, is_counted = next(iter(self._leaving.items()))
            self._commit(
                [(feed, feed.machine.decide_leave(member_id, is_counted=is_counted)) for feed in self.feeds]
            )
            del self._leaving[member_id]
        for feed in self.feeds:
            trimmed = feed.machine.decide_trim(feed.partition.start_offset)
            if trimmed:
                self._commit([(feed, Decision(list(trimmed), []))])

    def _commit(self, decisions: Sequence[tuple[SubscriptionFeed, Decision[list[DeadLetter]]]]) -> None:
        events = [event for _, decision in decisions for event in decision.events]
        if not events:
            return
        end_offset = self.shard.persist(events)
        for feed, decision in decisions:
            if any(isinstance(event, Freed) and event.is_ready for event in decision.events):
                feed.returned_upto = end_offset
            letters = cast("list[DeadLetter]", decision.answer)
            if letters:
                self._bury(feed, letters)

    def _dispatch(self) -> None:
        """Dispatch as many messages as the windows allow, starting with another partition each time."""
        if not self._recipients:
            return
        members = self.shard.book.members(self.name)
        by_member: dict[str, list[Delivered]] = {}
        count = len(self.feeds)
        self._first = (self._first + 1) % count
        for place in range(count):
            room = members.room
            if not room:
                break
            feed = self.feeds[(self._first + place) % count]
            try:
                self._dispatch_from(feed, min(room, TURN_COUNT_MAX), by_member)
            except BrokerError as error:
                self._skip_feed(feed, error)
        for member_id, messages in by_member.items():
            recipient = self._recipients.get(member_id)
            if recipient is not None:
                recipient.deliver(self.name, messages)
        if by_member and members.room:
            self._turn_soon()

    def _skip_feed(self, feed: SubscriptionFeed, error: BrokerError) -> None:
        """One partition cannot be read: skip it and retry later; the others go on."""
        logger.error(
            "cannot read %s, skipping it and retrying in %.0f s: %s",
            feed.partition,
            RETRY_S,
            error,
            extra={"subscription": self.name},
        )
        self._loop.call_later(RETRY_S, self._turn_soon)

    def _dispatch_from(
        self, feed: SubscriptionFeed, count_max: int, by_member: dict[str, list[Delivered]]
    ) -> None:
        machine = feed.machine
        if machine.ready and self.shard.partition.high_watermark < feed.returned_upto:
            self.shard.when_persisted(feed.returned_upto, lambda _: self._turn_soon())
            return
        if machine.ready and not feed.can_read_again(count_max):
            return
        available = feed.available(count_max, TURN_BYTES_MAX)
        if not machine.ready and available.upto_offset <= machine.cursor:
            return
        decision = machine.decide_dispatch(available, self._now_ms(), count_max)
        deliveries = cast("list[Delivery]", decision.answer)
        found = feed.records([delivery.offset for delivery in deliveries])
        self.shard.apply(decision.events)
        index = feed.partition.index
        for offset, member_id, number in deliveries:
            record = found.get(offset)
            if record is None:
                feed.claim(member_id, offset, Outcome.ACCEPT, None)
                self._turn_soon()
            else:
                by_member.setdefault(member_id, []).append(Delivered(index, record, number))

    # -- time

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _arm(self) -> None:
        """Schedule a wake-up for when the first hold expires. An earlier timer is kept: an early wake-up is
        harmless."""
        wake_ms = min(feed.machine.wake_ms for feed in self.feeds)
        if wake_ms == NEVER_MS or (self._timer is not None and self._timer[0] <= wake_ms):
            return
        if self._timer is not None:
            self._timer[1].cancel()
        self._timer = wake_ms, self._loop.call_at((wake_ms + 1) / 1000, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._turn_soon()
