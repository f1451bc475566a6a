"""JOIN, HEARTBEAT, LEAVE, COMMIT and OFFSETS: members share groups with Kafka clients.

Members use the consumer protocol (server-side assignment): a member joins, reports its partitions with every
heartbeat, and gets its assignment in the response.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from penstock.core.errors import BrokerError, Malformed, TooLarge
from penstock.core.limits import GROUP_CALL_ELEMENTS_MAX, REQUEST_ELEMENTS_MAX
from penstock.core.model import NO_EPOCH, TopicPartition
from penstock.doors.json.call import JsonCall
from penstock.doors.json.errors import error_fields
from penstock.node.runtime.slices import Sliced, chunks, once
from penstock.node.waist.committed import Committed, Committer, OffsetEntry
from penstock.node.waist.coordinators import CoordinatorKind
from penstock.node.waist.groups import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NOTHING,
    Assignment,
    HeartbeatAnswer,
    MemberHeartbeat,
)
from penstock.node.waist.positions import Bounds
from penstock.node.waist.waist import Waist
from penstock.wire.json.fields import INT32_MAX, Fields, shown

CLIENT_NAME = "json"
REBALANCE_MS = 60_000
"""Default time that a member has to revoke partitions."""


class JsonGroupHandlers:
    """Handlers of group requests."""

    def __init__(self, waist: Waist) -> None:
        self._slices = waist.slices
        self._coordinators = waist.coordinators
        self._topics = waist.topics
        self._positions = waist.positions
        self._groups = waist.groups
        self._forwarded = waist.forwarded_groups

    async def _open(self, call: JsonCall, group_id: str) -> None:
        """Open the coordinator: this protocol has no separate call to find it."""
        await self._coordinators.open(call.session, CoordinatorKind.GROUP, [group_id])

    # -- members

    async def join(self, call: JsonCall) -> None:
        """Add a new member, or one that must rejoin."""
        fields = call.fields
        group_id, topics = fields.text("group"), _texts("topics", _bounded("topics", fields))
        beat = MemberHeartbeat(
            member_id=fields.optional_text("member") or self._groups.new_consumer_id(call.session),
            epoch=JOIN_EPOCH,
            instance_id=fields.optional_text("instance"),
            client_id=CLIENT_NAME,
            client_host=f"/{call.session.address}",
            rebalance_ms=fields.number("rebalance_ms", REBALANCE_MS, low=1, high=INT32_MAX),
            topic_names=topics,
            owned=NOTHING,
        )
        fields.check_empty()
        await self._open(call, group_id)
        await self._slices.run(once(lambda: self._beat(call, group_id, beat)))

    async def heartbeat(self, call: JsonCall) -> None:
        """Renew the session of a member that holds `assignment`; the response contains the current assignment."""
        fields = call.fields
        group_id = fields.text("group")
        beat = MemberHeartbeat(
            member_id=fields.text("member"),
            epoch=fields.number("epoch", low=1, high=INT32_MAX),
            instance_id=fields.optional_text("instance"),
            owned=self._owned(call, _bounded("assignment", fields)),
        )
        fields.check_empty()
        await self._open(call, group_id)
        self._beat(call, group_id, beat)

    async def leave(self, call: JsonCall) -> None:
        fields = call.fields
        group_id = fields.text("group")
        beat = MemberHeartbeat(
            member_id=fields.text("member"), epoch=LEAVE_EPOCH, instance_id=fields.optional_text("instance")
        )
        fields.check_empty()
        await self._open(call, group_id)

        def answered(outcome: HeartbeatAnswer | BrokerError) -> None:
            if isinstance(outcome, BrokerError):
                call.refuse(outcome)
            else:
                call.answer({})

        leave = partial(self._forwarded.beat, call.session, group_id, beat, answered)
        await self._slices.run(once(leave))

    def _beat(self, call: JsonCall, group_id: str, beat: MemberHeartbeat) -> None:
        def answered(outcome: HeartbeatAnswer | BrokerError) -> None:
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
                    "assignment": self._named(call, assignment),
                }
            )

        self._forwarded.beat(call.session, group_id, beat, answered)

    def _owned(self, call: JsonCall, listed: list[Any]) -> Assignment:
        """The partitions that a member reports; deleted topics are left out."""
        owned: dict[bytes, set[int]] = {}
        for place in map(_place, listed):
            topic_id = self._topics.id_of(call.session, place.topic)
            if topic_id is not None:
                owned.setdefault(topic_id, set()).add(place.partition)
        return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}

    def _named(self, call: JsonCall, assignment: Assignment) -> list[dict[str, Any]]:
        topics = self._groups.assigned_topics(call.session, assignment)
        named = [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]
        return [place._asdict() for place in sorted(named)]

    # -- offsets

    async def commit(self, call: JsonCall) -> None:
        """Answered when the offsets are durable; with one result per offset if any is rejected."""
        fields = call.fields
        group_id, by = fields.text("group"), _committer(fields)
        rows = _bounded("offsets", fields)
        fields.check_empty()
        entries = await self._slices.run(self._entries(call, rows))
        await self._open(call, group_id)
        outcomes = await self._forwarded.commit(call.session, group_id, by, entries)
        failure = next(filter(None, outcomes.errors), None)
        if failure is None:
            call.answer({})
            return
        results = [{} if error is None else error_fields(error) for error in outcomes.errors]
        call.refuse(failure, {"results": results})

    def _entries(self, call: JsonCall, rows: list[Any]) -> Sliced[list[OffsetEntry]]:
        entries: list[OffsetEntry] = []
        for some in chunks(rows):
            for row in some:
                entries.append(one := _entry(row))
                self._topics.check_partition(call.session, one.topic, one.partition)
            yield len(some)
        return entries

    async def offsets(self, call: JsonCall) -> None:
        """Start and end offsets of the partitions of topics and, for a group, the committed offsets."""
        fields = call.fields
        group_id = fields.optional_text("group")
        topics = _texts("topics", fields.listed("topics"))
        fields.check_empty()
        slices = self._slices
        places = await slices.run(self._places(call, topics))
        elsewhere = await self._positions.bounds_elsewhere(call.session, places)
        if group_id is None:
            rows = (self._bounds(call, place, elsewhere) for place in places)
            await slices.run(call.answer_rows({}, "offsets", rows))
            return
        await self._open(call, group_id)
        found = await self._forwarded.fetch(call.session, group_id, places)
        rows = ({**self._bounds(call, place, elsewhere), **_progress(found.get(place))} for place in places)
        await slices.run(call.answer_rows({}, "offsets", rows))

    def _places(self, call: JsonCall, topics: Sequence[str]) -> Sliced[list[TopicPartition]]:
        places: list[TopicPartition] = []
        for name in topics:
            count = self._topics.get(call.session, name).partition_count
            if len(places) + count > REQUEST_ELEMENTS_MAX:
                raise TooLarge(f"OFFSETS supports at most {REQUEST_ELEMENTS_MAX} partitions")
            places += [TopicPartition(name, index) for index in range(count)]
            yield 1 + count // 16
        return places

    def _bounds(
        self,
        call: JsonCall,
        place: TopicPartition,
        elsewhere: Mapping[TopicPartition, Bounds | BrokerError],
    ) -> dict[str, Any]:
        """The offsets of a partition, or why the broker that leads it did not tell."""
        found = elsewhere.get(place) or self._positions.bounds(call.session, *place)
        return {
            **place._asdict(),
            **(error_fields(found) if isinstance(found, BrokerError) else found._asdict()),
        }


def _bounded(name: str, fields: Fields) -> list[Any]:
    listed = fields.listed(name)
    if len(listed) > GROUP_CALL_ELEMENTS_MAX:
        raise TooLarge(f"{name!r} has {len(listed)} entries; at most {GROUP_CALL_ELEMENTS_MAX} are allowed")
    return listed


def _committer(fields: Fields) -> Committer:
    """The committer: a member at its epoch, or a client outside the group."""
    member, instance = fields.optional_text("member"), fields.optional_text("instance")
    if member is None:
        return Committer()
    return Committer(member, fields.number("epoch", low=0, high=INT32_MAX), instance)


def _entry(row: object) -> OffsetEntry:
    fields = Fields(row, "an offset")
    topic, partition = fields.text("topic"), fields.number("partition", 0, high=INT32_MAX)
    offset, metadata = fields.number("offset"), fields.optional_text("metadata") or ""
    fields.check_empty()
    return OffsetEntry(topic, partition, offset, NO_EPOCH, metadata)


def _place(row: object) -> TopicPartition:
    fields = Fields(row, "an assignment")
    place = TopicPartition(fields.text("topic"), fields.number("partition", high=INT32_MAX))
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
            raise Malformed(f"{name!r} must be a list of strings, {shown(one)} is not a string")
    return texts
