"""One subscription at work: deals messages out, takes in what members say, keeps time. Speaks no protocol.

Everything happens in turns of the loop: what members settled meanwhile is decided and kept at once, for all partitions
together, and then as much is dealt out as windows allow. A message that comes back is not given to anybody before it is
durable that it came back: else its deliveries would be counted wrong after a crash.
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
from penstock.node.coordinators.subscription_feed import SubscriptionFeed
from penstock.node.coordinators.subscription_shard import SubscriptionShard
from penstock.node.replicas.offset_waits import Settled
from penstock.node.replicas.partition import Partition

logger = logging.getLogger("penstock.subscriptions")

TURN_COUNT_MAX = 512
TURN_BYTES_MAX = 1 << 20
"""What one partition gives in one turn of the loop."""

RETRY_S = 1.0
"""When something could not be written or read, it is tried again this much later."""


class Delivered(NamedTuple):
    """A message for a member; `number` counts its deliveries, this one included."""

    partition: int
    record: Record
    number: int


class Recipient(Protocol):
    """A member's end of the line."""

    def deliver(self, subscription: str, messages: Sequence[Delivered]) -> None:
        """Messages that the member holds from now on."""

    def end(self, subscription: str, error: BrokerError) -> None:
        """There will be no more: the subscription is gone, or its partition failed."""


Buried = Callable[[SubscriptionFeed, Sequence[DeadLetter]], None]
"""Takes messages that are to go into the dead letter topic."""


class LiveSubscription:
    """Made for each subscription when the node starts, and when one is created."""

    def __init__(
        self,
        definition: SubscriptionDefinition,
        shard: SubscriptionShard,
        partitions: Sequence[Partition],
        bury: Buried,
    ) -> None:
        self.name = definition.name
        self.shard = shard
        self.feeds: list[SubscriptionFeed] = []
        self._bury = bury
        self._loop = asyncio.get_running_loop()
        self._recipients: dict[str, Recipient] = {}
        self._windows: dict[str, int] = {}
        self._leaving: dict[str, bool] = {}
        """Members that are gone, and whether what they hold counts as delivered."""
        self._awaiting_settlement: list[Settled] = []
        """Who wants to know when all that was said so far is durable."""
        self.is_closed = False
        self._is_due = False
        self._first = 0
        self._timer: tuple[int, asyncio.TimerHandle] | None = None
        self.extend(partitions)

    @property
    def definition(self) -> SubscriptionDefinition:
        return self.shard.book.get(self.name)

    def extend(self, partitions: Sequence[Partition]) -> None:
        """Read these partitions, too, as far as they are not read yet."""
        machines = self.shard.book.machines(self.name)
        for machine in machines[len(self.feeds) :]:
            feed = SubscriptionFeed(machine, partitions[machine.feed.partition], self._turn_soon)
            self.feeds.append(feed)
            if self._recipients:
                feed.partition.add_listener(self._turn_soon)

    def recover(self) -> None:
        """Go on with what was on its way to the dead letter topic."""
        for feed in self.feeds:
            machine = feed.machine
            if machine.dying:
                self._bury(feed, [DeadLetter(one, machine.mark(one).deliveries) for one in machine.dying])

    # -- members

    def join(self, member_id: str, window: int, recipient: Recipient) -> None:
        """A member comes and is dealt messages from now on."""
        self.shard.check_ready()
        if self.is_closed:
            raise NotCoordinator(f"{self.name!r} is not delivered here any more")
        if member_id in self._recipients:
            raise InvalidRequest(f"{member_id!r} is a member of {self.name!r} already")
        if not self._recipients:
            for feed in self.feeds:
                feed.partition.add_listener(self._turn_soon)
        self._recipients[member_id] = recipient
        self._windows[member_id] = window
        self._put_window(member_id, window)

    def pause(self, member_id: str) -> None:
        """The member does not read: no more for now."""
        self._put_window(member_id, 0)

    def resume(self, member_id: str) -> None:
        if member_id in self._windows:
            self._put_window(member_id, self._windows[member_id])

    def _put_window(self, member_id: str, window: int) -> None:
        if self.is_closed:
            return  # the shard may host another machine by now
        self.shard.apply(self.feeds[0].machine.decide_join(member_id, window))
        self._turn_soon()

    def leave(self, member_id: str, *, is_counted: bool, settled: Settled) -> None:
        """A member goes; called back once all that it settled is durable."""
        if self.is_closed or self._recipients.pop(member_id, None) is None:
            settled(UnknownMember(f"{self.name!r} has no member {member_id!r}"))
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
        """A member says what became of a message. Raises NotHeld when that is not for it to say."""
        self._feed(partition).claim(member_id, offset, outcome, complaint)
        self._turn_soon()

    def renew(self, member_id: str, partition: int, offset: int) -> None:
        """A member needs more time for a message that it holds."""
        machine = self._feed(partition).machine
        events = machine.decide_renew(member_id, [offset], self._now_ms())
        if not self.is_closed:
            self.shard.apply(events)

    def when_settled(self, settled: Settled) -> None:
        """Call back once everything that members have said so far is durable."""
        self._awaiting_settlement.append(settled)
        self._turn_soon()

    def _feed(self, partition: int) -> SubscriptionFeed:
        if not 0 <= partition < len(self.feeds):
            raise InvalidRequest(f"{self.name!r} has no partition {partition}")
        return self.feeds[partition]

    def retire(self, error: BrokerError) -> None:
        """The broker is stopping: keep what members have said, then close."""
        try:
            self._settle()
        except BrokerError as failure:
            logger.warning(
                "acknowledgements lost during shutdown: %s", failure, extra={"subscription": self.name}
            )
        self.close(error)

    def close(self, error: BrokerError) -> None:
        """No more work; members are told why. What they hold is delivered again one day, and not counted."""
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
        """Something cannot be written or read: try again later, or give up for good."""
        if self.shard.partition.failure is not None:
            logger.error("a subscription ends here: %s", error, extra={"subscription": self.name})
            self.close(error)
            return
        logger.warning("a subscription waits: %s", error, extra={"subscription": self.name})
        self._loop.call_later(RETRY_S, self._turn_soon)

    def _settle(self) -> None:
        """What was said, whose time is up, who is gone, what the log let go of: decided in this order, kept together
        where one does not depend on the other."""
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
        """Deal out as much as windows allow, each time from another partition first."""
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
        """One partition cannot be read; the others go on, and it is tried again later."""
        logger.error(
            "a subscription cannot read %s: %s", feed.partition, error, extra={"subscription": self.name}
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
        """Wake when the first hold ends. An earlier timer is left alone: waking early does no harm."""
        wake_ms = min(feed.machine.wake_ms for feed in self.feeds)
        if wake_ms == NEVER_MS or (self._timer is not None and self._timer[0] <= wake_ms):
            return
        if self._timer is not None:
            self._timer[1].cancel()
        self._timer = wake_ms, self._loop.call_at((wake_ms + 1) / 1000, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._turn_soon()
