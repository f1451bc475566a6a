"""Writes undeliverable messages to the dead letter topic, once each, and redrives them. Speaks no protocol.

    dying is durable ──▶ letter is appended ──▶ letter is durable ──▶ done is persisted
A crash in between leaves the message dying, so that no member gets it again. Recovery first checks whether the letter
was written: each letter carries its origin.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.core.errors import BrokerError, Refused
from penstock.core.machines.subscriptions.definitions import SubscriptionDefinition
from penstock.core.machines.subscriptions.events import Feed
from penstock.core.machines.subscriptions.subscription import DeadLetter
from penstock.core.model import Header, NewRecord, Record
from penstock.node.coordinators.live_subscription import LiveSubscription
from penstock.node.coordinators.own_log import IsWanted, OwnLog
from penstock.node.coordinators.subscription_feed import REDRIVEN_FOR, SubscriptionFeed
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.dead_letters")

TOPIC_CONFIG: Mapping[str, str] = {"retention.ms": "-1", "retention.bytes": "-1"}
"""Dead letters are retained until someone has inspected them."""

PREFIX = "penstock.dead."
AT_ONCE = 200
"""Letters written per flush."""
RETRY_S, RETRY_S_MAX = 0.2, 5.0

OpenDeadLetterTopic = Callable[[str, Mapping[str, str]], Awaitable[OwnLog]]
"""Returns the partition of a dead letter topic; creates the topic if it is missing."""


class Origin(NamedTuple):
    """The message that a letter contains."""

    feed: Feed
    offset: int


class _Letter(NamedTuple):
    feed: SubscriptionFeed
    deliveries: int
    was_found: bool
    """It was dying when the node started: the letter may be in the topic already."""


class DeadLetters:
    """The dead letters of one subscription that are not written yet."""

    def __init__(self, tasks: Tasks, open_topic: OpenDeadLetterTopic) -> None:
        self._tasks = tasks
        self._open_topic = open_topic
        self._waiting: dict[Origin, _Letter] = {}
        self._written: set[Origin] = set()
        """Letters that are in the topic, but not yet persisted as done."""
        self._is_running = False
        self.is_recovering = False

    def take(self, live: LiveSubscription, feed: SubscriptionFeed, letters: Sequence[DeadLetter]) -> None:
        """Write these letters, retrying until they are durable."""
        for offset, deliveries in letters:
            origin = Origin(feed.machine.feed, offset)
            self._waiting[origin] = _Letter(feed, deliveries, self.is_recovering)
        if not self._is_running:
            self._is_running = True
            self._tasks.spawn(self._run(live))

    async def _run(self, live: LiveSubscription) -> None:
        pause_s = RETRY_S
        try:
            while self._waiting and not live.is_closed:
                try:
                    await self._bury(live)
                    pause_s = RETRY_S
                except BrokerError as error:
                    logger.warning(
                        "cannot write dead letters, retrying in %.1f s: %s",
                        pause_s,
                        error,
                        extra={"subscription": live.name},
                    )
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, RETRY_S_MAX)
        finally:
            self._is_running = False

    async def _bury(self, live: LiveSubscription) -> None:
        """Write some of the waiting letters: `dying` is durable before, `done` is persisted after.

        The set is chosen before the first wait: messages that arrive later are not durably dying yet.
        """
        some = dict(list(self._waiting.items())[:AT_ONCE])
        await live.shard.persisted(live.shard.end_offset)
        log = await self._open_topic(live.definition.dead_letter_topic, TOPIC_CONFIG)
        if live.is_closed:
            return
        if any(letter.was_found for letter in some.values()):
            self._written |= {origin async for _, origin, _ in _letters(log, 0) if origin in some}
            for origin, letter in some.items():
                self._waiting[origin] = letter._replace(was_found=False)
        refused: dict[Origin, BrokerError] = {}
        for origin, letter in some.items():
            if origin in self._written:
                continue
            record = await letter.feed.read_again(origin.offset)
            try:
                await self._write(live, log, origin, letter, record)
            except (
                Refused
            ) as error:  # the others can be written all the same, and are tried first the next time
                refused[origin] = error
                self._waiting[origin] = self._waiting.pop(origin)
        await log.flush()
        self._persist_done(live, {one: letter for one, letter in some.items() if one not in refused})
        if refused:
            raise next(iter(refused.values()))

    def _persist_done(self, live: LiveSubscription, some: Mapping[Origin, _Letter]) -> None:
        """Persist that the letters are done, unless the subscription was closed: another may have taken its name."""
        if live.is_closed:
            return
        for feed in {letter.feed.machine.feed: letter.feed for letter in some.values()}.values():
            offsets = [origin.offset for origin, letter in some.items() if letter.feed is feed]
            live.shard.persist(feed.machine.decide_bury(offsets))
            for offset in offsets:
                origin = Origin(feed.machine.feed, offset)
                self._waiting.pop(origin, None)
                self._written.discard(origin)
                feed.complaints.pop(offset, None)

    async def _write(
        self,
        live: LiveSubscription,
        log: OwnLog,
        origin: Origin,
        letter: _Letter,
        record: Record | None,
    ) -> None:
        if live.is_closed:
            return
        definition = live.definition
        if record is None:
            logger.warning(
                "dead letter expired before it could be copied; skipping it",
                extra={
                    "subscription": definition.name,
                    "topic": definition.topic,
                    "partition": origin.feed.partition,
                    "offset": origin.offset,
                },
            )
            return
        headers = (*_own_headers(record), *_cause_headers(definition, origin, letter))
        await log.append(NewRecord(record.key, record.value, headers), lambda: not live.is_closed)
        self._written.add(origin)


def _own_headers(record: Record) -> tuple[Header, ...]:
    """The headers of a message without those of an earlier dead letter."""
    return tuple(
        header
        for header in record.headers
        if not header.key.startswith(PREFIX) and header.key != REDRIVEN_FOR
    )


def _cause_headers(definition: SubscriptionDefinition, origin: Origin, letter: _Letter) -> Iterator[Header]:
    """Headers with the reason and the origin of a dead letter."""
    is_worn_out = letter.deliveries >= definition.deliveries_max
    facts = {
        "reason": f"delivered {letter.deliveries} times, never acknowledged" if is_worn_out else "rejected",
        "error": letter.feed.complaints.get(origin.offset, ""),
        "subscription": definition.name,
        "topic": definition.topic,
        "topic-id": origin.feed.topic_id.hex(),
        "partition": str(origin.feed.partition),
        "offset": str(origin.offset),
        "deliveries": str(letter.deliveries),
    }
    for name, value in facts.items():
        if value:
            yield Header(PREFIX + name, value.encode())


def origin_of(record: Record) -> Origin | None:
    """The origin of a dead letter; None if the record is not one."""
    facts = {
        header.key.removeprefix(PREFIX): (header.value or b"").decode(errors="replace")
        for header in record.headers
        if header.key.startswith(PREFIX)
    }
    try:
        feed = Feed(facts["subscription"], bytes.fromhex(facts["topic-id"]), int(facts["partition"]))
        return Origin(feed, int(facts["offset"]))
    except (KeyError, ValueError):
        return None


async def _letters(log: OwnLog, offset: int) -> AsyncIterator[tuple[Record, Origin, int]]:
    """Every letter from an offset on, with its origin and the next offset."""
    async for record in log.records(offset):
        origin = origin_of(record)
        if origin is not None:
            yield record, origin, record.offset + 1


async def redrive(
    live: LiveSubscription,
    letters: OwnLog,
    open_log: Callable[[int], OwnLog],
    is_wanted: IsWanted,
    count_max: int | None = None,
) -> int:
    """Write dead letters of a subscription back to their topic, for this subscription only; returns how many.

    They are durable in the topic before the progress is persisted: after a crash some may be redriven twice. So they
    may if a partition cannot be written to in time: the error is raised, and the progress until then is persisted.
    """
    definition = live.definition
    logs = {feed.machine.feed: open_log(feed.partition.index) for feed in live.feeds}
    is_known = definition.redriven_offset <= await letters.high_watermark()
    first_offset = definition.redriven_offset if is_known else 0
    count, upto_offset = 0, first_offset
    mark = Header(REDRIVEN_FOR, definition.name.encode())
    failure: BrokerError | None = None
    async for record, origin, next_offset in _letters(letters, first_offset):
        if count == count_max:
            break
        log = logs.get(origin.feed)
        if log is not None:
            try:
                again = NewRecord(record.key, record.value, (*_own_headers(record), mark))
                await log.append(again, is_wanted)
            except BrokerError as error:
                failure = error
                break
            count += 1
        upto_offset = next_offset
    for log in logs.values():
        await log.flush()
    if upto_offset != definition.redriven_offset and not live.is_closed:
        live.shard.persist(live.shard.book.decide_redriven(definition.name, upto_offset))
        await live.shard.persisted(live.shard.end_offset)
    if failure is not None:
        raise failure
    return count
