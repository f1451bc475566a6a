"""Groups over HTTP: which there are, their members, how far behind they are. Never changes one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from penstock.core.errors import BrokerError, InconsistentProtocol, UnknownGroup, UnknownTopicId
from penstock.core.machines.consumer_group import ConsumerGroup
from penstock.core.machines.consumer_protocol import Named, decode_assignment
from penstock.core.machines.group import Group
from penstock.core.machines.group_kinds import GroupMachine
from penstock.doors.http.exchange import Exchange
from penstock.node.broker import Broker
from penstock.node.lag import Lag, lag_of
from penstock.node.slices import CHUNK, Sliced
from penstock.wire.http.response import Response, json_rows


class GroupHandlers:
    """Answers everything about groups."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._coordination = broker.coordination

    def all(self, exchange: Exchange) -> Sliced[Response]:
        """GET /api/v1/groups"""
        listed = self._coordination.groups.list()
        rows = ({"group": one.group_id, "kind": one.kind, "state": one.state_name} for one in listed)
        return json_rows({}, "groups", rows)

    async def describe(self, exchange: Exchange) -> Response:
        """GET /api/v1/groups/{group}"""
        group = await self._settled(exchange.parts["group"])
        head = {"group": group.id, "kind": group.kind, "state": group.state_name}
        return await self._broker.runtime.slices.run(json_rows(head, "members", self._members(group)))

    async def lag(self, exchange: Exchange) -> Response:
        """GET /api/v1/groups/{group}/lag"""
        group = await self._settled(exchange.parts["group"])
        return await self._broker.runtime.slices.run(self._lag(group.id))

    def _lag(self, group_id: str) -> Sliced[Response]:
        rows = []
        for row in lag_of(self._broker, group_id):
            rows.append(row)
            if len(rows) % CHUNK == 0:
                yield CHUNK // 4
        head = {"group": group_id, "lag": sum(row.records for row in rows)}
        return (yield from json_rows(head, "partitions", map(_row, rows)))

    async def _settled(self, group_id: str) -> GroupMachine:
        """The group, once everything that will be told of it is durable."""
        if not self._coordination.is_open:
            raise UnknownGroup(f"there is no group {group_id!r}: nobody has used one yet")
        group = self._coordination.groups.find(group_id)
        if group is None:
            raise UnknownGroup(f"there is no group {group_id!r}")
        shard = self._coordination.groups.shard_of(group_id)
        await _told(lambda settled: shard.when_persisted(group_id, settled))
        return group

    def _members(self, group: GroupMachine) -> Iterator[dict[str, Any]]:
        """Of members that leave meanwhile, the last that was known."""
        if isinstance(group, ConsumerGroup):
            standings = [(one, member, group.standing(one)) for one, member in sorted(group.members.items())]
            for one, member, standing in standings:
                yield _member(one, member.client_id, member.client_host, self._named(standing.assigned))
        elif isinstance(group, Group):
            for classic in list(group.members.values()):
                assigned = _assigned(classic.assignment)
                yield _member(classic.id, classic.client_id, classic.client_host, assigned)

    def _named(self, assignment: Any) -> Named:
        """An assignment with the names of its topics; one that was deleted meanwhile is left out."""
        named = {}
        for topic_id, partitions in assignment.items():
            try:
                named[self._broker.catalog.topic_by_id(topic_id).name] = frozenset(partitions)
            except UnknownTopicId:
                continue
        return named


def _assigned(raw: bytes) -> Named:
    """What members of other kinds than consumers make of their assignment is not known here."""
    try:
        return decode_assignment(raw)
    except InconsistentProtocol:
        return {}


def _member(member_id: str, client_id: str, host: str, assigned: Named) -> dict[str, Any]:
    return {
        "member": member_id,
        "client_id": client_id,
        "host": host,
        "partitions": [
            {"topic": topic, "partition": partition}
            for topic in sorted(assigned)
            for partition in sorted(assigned[topic])
        ],
    }


def _row(lag: Lag) -> dict[str, Any]:
    return {
        "topic": lag.place.topic,
        "partition": lag.place.partition,
        "committed_offset": lag.committed_offset,
        "end_offset": lag.end_offset,
        "lag": lag.records,
    }


async def _told(ask: Callable[[Callable[[BrokerError | None], None]], None]) -> None:
    """Wait for a call back; raises what it brings."""
    told: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settled(error: BrokerError | None) -> None:
        if told.done():
            return
        if error is not None:
            told.set_exception(error)
        else:
            told.set_result(None)

    ask(settled)
    await told
