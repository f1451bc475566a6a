"""JOIN, HEARTBEAT, LEAVE, COMMIT and OFFSETS: members of the same groups that Kafka's clients are in.

A member speaks the protocol in which the broker assigns: it joins, says with every heartbeat what it holds, and is told
what it is to hold. Never decides anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.core.errors import BrokerError, Malformed, TooLarge, UnknownTopic, UnknownTopicId
from penstock.core.limits import GROUP_CALL_ELEMENTS_MAX, OFFSETS_PER_BATCH_MAX, REQUEST_ELEMENTS_MAX
from penstock.core.machines.assignors import NOTHING, Assignment
from penstock.core.machines.consumer_group import Beat, BeatAnswer
from penstock.core.machines.consumer_group_events import JOIN_EPOCH, LEAVE_EPOCH
from penstock.core.machines.offsets import Committed, Place
from penstock.core.model import NO_EPOCH
from penstock.doors.json.call import Call
from penstock.doors.json.errors import error_fields
from penstock.node.broker import Broker
from penstock.node.coordinators.committed import NO_RETENTION, Committer, NewOffset
from penstock.node.slices import Sliced, chunks
from penstock.wire.json.fields import INT32_MAX, Fields, shown

Parts = list[asyncio.Future[list[BrokerError | None] | BrokerError]]
"""A commit in several batches: for each offset None or why it was refused, or one refusal for all of a batch."""

CLIENT_NAME = "json"
REBALANCE_MS = 60_000
"""How long a member has to give up what it no longer holds, unless it says otherwise."""


class GroupHandlers:
    """Answers members of groups, and those who commit for one."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._coordination = broker.coordination

    # -- members

    async def join(self, call: Call) -> None:
        """A new member, or one that has to begin anew."""
        fields = call.fields
        group_id, topics = fields.text("group"), _texts("topics", _bounded("topics", fields))
        beat = Beat(
            member_id=fields.optional_text("member") or self._coordination.consumer.fresh_member_id(),
            epoch=JOIN_EPOCH,
            instance_id=fields.optional_text("instance"),
            client_id=CLIENT_NAME,
            client_host=f"/{call.session.address}",
            rebalance_ms=fields.number("rebalance_ms", REBALANCE_MS, low=1, high=INT32_MAX),
            topic_names=topics,
            owned=NOTHING,
        )
        fields.check_empty()
        await self._coordination.open()
        self._beat(call, group_id, beat)

    async def heartbeat(self, call: Call) -> None:
        """The member lives and holds `assignment`; the answer says what it is to hold now."""
        fields = call.fields
        group_id = fields.text("group")
        beat = Beat(
            member_id=fields.text("member"),
            epoch=fields.number("epoch", low=1, high=INT32_MAX),
            instance_id=fields.optional_text("instance"),
            owned=self._owned(_bounded("assignment", fields)),
        )
        fields.check_empty()
        await self._coordination.open()
        self._beat(call, group_id, beat)

    async def leave(self, call: Call) -> None:
        fields = call.fields
        group_id = fields.text("group")
        beat = Beat(
            member_id=fields.text("member"), epoch=LEAVE_EPOCH, instance_id=fields.optional_text("instance")
        )
        fields.check_empty()
        await self._coordination.open()

        def answered(outcome: BeatAnswer | BrokerError) -> None:
            if isinstance(outcome, BrokerError):
                call.refuse(outcome)
            else:
                call.answer({})

        self._coordination.consumer.heartbeat(group_id, beat, answered)

    def _beat(self, call: Call, group_id: str, beat: Beat) -> None:
        def answered(outcome: BeatAnswer | BrokerError) -> None:
            if isinstance(outcome, BrokerError):
                call.refuse(outcome)
                return
            assignment = beat.owned if outcome.assignment is None else outcome.assignment
            assert assignment is not None
            call.answer(
                {
                    "group": group_id,
                    "member": outcome.member_id,
                    "epoch": outcome.epoch,
                    "heartbeat_ms": outcome.heartbeat_ms,
                    "assignment": self._named(assignment),
                }
            )

        self._coordination.consumer.heartbeat(group_id, beat, answered)

    def _owned(self, listed: list[Any]) -> Assignment:
        """What a member says it holds. A topic that is gone meanwhile cannot be held."""
        owned: dict[bytes, set[int]] = {}
        for place in map(_place, listed):
            topic = self._broker.catalog.find(place.topic)
            if topic is not None:
                owned.setdefault(topic.id, set()).add(place.partition)
        return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}

    def _named(self, assignment: Assignment) -> list[dict[str, Any]]:
        named = []
        for topic_id, partitions in assignment.items():
            try:
                name = self._broker.catalog.topic_by_id(topic_id).name
            except UnknownTopicId:
                continue
            named += [Place(name, index) for index in partitions]
        return [place._asdict() for place in sorted(named)]

    # -- offsets

    async def commit(self, call: Call) -> None:
        """Answered when the offsets are durable; each has its own result if any is refused."""
        fields = call.fields
        group_id, by = fields.text("group"), _committer(fields)
        rows = _bounded("offsets", fields)
        fields.check_empty()
        slices = self._broker.runtime.slices
        offsets = await slices.run(self._new_offsets(rows))
        await self._coordination.open()
        parts = await slices.run(self._committing(group_id, by, offsets))
        outcomes: list[BrokerError | None] = []
        for outcome in await asyncio.gather(*parts):
            if isinstance(outcome, BrokerError):
                raise outcome
            outcomes += outcome
        failure = next(filter(None, outcomes), None)
        if failure is None:
            call.answer({})
            return
        results = [{} if error is None else error_fields(error) for error in outcomes]
        call.refuse(failure, {"results": results})

    def _new_offsets(self, rows: list[Any]) -> Sliced[list[NewOffset]]:
        offsets: list[NewOffset] = []
        for some in chunks(rows):
            for row in some:
                offsets.append(one := _new_offset(row))
                self._check_place(one.place)
            yield len(some)
        return offsets

    def _committing(self, group_id: str, by: Committer, offsets: list[NewOffset]) -> Sliced[Parts]:
        """Many offsets are several batches, each with an outcome of its own."""
        parts: Parts = []
        for some in chunks(offsets, OFFSETS_PER_BATCH_MAX):
            parts.append(part := asyncio.get_running_loop().create_future())
            self._coordination.committed.commit(group_id, by, some, NO_RETENTION, part.set_result)
            yield len(some)
        return parts

    async def offsets(self, call: Call) -> None:
        """Where the partitions of some topics begin and end and, for a group, how far it is."""
        fields = call.fields
        group_id = fields.optional_text("group")
        topics = _texts("topics", fields.listed("topics"))
        fields.check_empty()
        slices = self._broker.runtime.slices
        places = await slices.run(self._places(topics))
        if group_id is None:
            await slices.run(call.answer_rows({}, "offsets", map(self._bounds, places)))
            return
        await self._coordination.open()

        def answered(outcome: dict[Place, Committed | BrokerError | None] | BrokerError) -> None:
            if isinstance(outcome, BrokerError):
                call.refuse(outcome)
                return
            rows = ({**self._bounds(place), **_progress(outcome[place])} for place in places)
            slices.go(call.answer_rows({}, "offsets", rows), call.check)

        fetching = self._coordination.committed.fetch(
            group_id, Committer(), places, answered, require_stable=False
        )
        await slices.run(fetching)

    def _places(self, topics: Sequence[str]) -> Sliced[list[Place]]:
        places: list[Place] = []
        for name in topics:
            count = self._broker.catalog.topic(name).partition_count
            if len(places) + count > REQUEST_ELEMENTS_MAX:
                raise TooLarge(f"OFFSETS answers for at most {REQUEST_ELEMENTS_MAX} partitions")
            places += [Place(name, index) for index in range(count)]
            yield 1 + count // 16
        return places

    def _bounds(self, place: Place) -> dict[str, Any]:
        partition = self._broker.partition(*place)
        return {
            **place._asdict(),
            "start_offset": partition.start_offset,
            "end_offset": partition.high_watermark,
        }

    def _check_place(self, place: Place) -> None:
        if not 0 <= place.partition < self._broker.catalog.topic(place.topic).partition_count:
            raise UnknownTopic(f"topic {place.topic!r} has no partition {place.partition}")


def _bounded(name: str, fields: Fields) -> list[Any]:
    listed = fields.listed(name)
    if len(listed) > GROUP_CALL_ELEMENTS_MAX:
        raise TooLarge(f"{name!r} has {len(listed)} entries; at most {GROUP_CALL_ELEMENTS_MAX} are possible")
    return listed


def _committer(fields: Fields) -> Committer:
    """A member at its epoch, or somebody outside of the group."""
    member, instance = fields.optional_text("member"), fields.optional_text("instance")
    if member is None:
        return Committer()
    return Committer(member, fields.number("epoch", low=0, high=INT32_MAX), instance)


def _new_offset(row: object) -> NewOffset:
    fields = Fields(row, "an offset")
    place = Place(fields.text("topic"), fields.number("partition", 0, high=INT32_MAX))
    offset, metadata = fields.number("offset"), fields.optional_text("metadata") or ""
    fields.check_empty()
    return NewOffset(place, offset, NO_EPOCH, metadata)


def _place(row: object) -> Place:
    fields = Fields(row, "an assignment")
    place = Place(fields.text("topic"), fields.number("partition", high=INT32_MAX))
    fields.check_empty()
    return place


def _progress(found: Committed | BrokerError | None) -> dict[str, Any]:
    if isinstance(found, BrokerError):
        return error_fields(found)
    if found is None:
        return {"committed": None}
    return {"committed": found.offset, **({"metadata": found.metadata} if found.metadata else {})}


def _texts(name: str, found: Iterable[Any]) -> tuple[str, ...]:
    texts = tuple(found)
    for one in texts:
        if not isinstance(one, str):
            raise Malformed(f"{name!r} is a list of strings, {shown(one)} is none")
    return texts
