"""Groups over HTTP: which there are, their members, how far behind they are. Never changes one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.core.errors import BrokerError, InconsistentProtocol, UnknownGroup, UnknownTopicId
from penstock.core.machines.consumer_group import ConsumerGroup
from penstock.core.machines.consumer_protocol import Named, decode_assignment
from penstock.core.machines.group import Group
from penstock.core.machines.group_kinds import GroupMachine
from penstock.doors.http.exchange import Exchange
from penstock.node.broker import Broker
from penstock.node.lag import Lag, lag_of
from penstock.wire.http.response import Response, json_response


class GroupHandlers:
    """Answers everything about groups."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._coordination = broker.coordination

    def all(self, exchange: Exchange) -> Response:
        """GET /api/v1/groups"""
        listed = self._coordination.groups.list()
        groups = [{"group": one.group_id, "kind": one.kind, "state": one.state_name} for one in listed]
        return json_response({"groups": groups})

    async def describe(self, exchange: Exchange) -> Response:
        """GET /api/v1/groups/{group}"""
        group = await self._settled(exchange.parts["group"])
        shown = {
            "group": group.id,
            "kind": group.kind,
            "state": group.state_name,
            "members": self._members(group),
        }
        return json_response(shown)

    async def lag(self, exchange: Exchange) -> Response:
        """GET /api/v1/groups/{group}/lag"""
        group = await self._settled(exchange.parts["group"])
        rows = list(lag_of(self._broker, group.id))
        shown = {
            "group": group.id,
            "lag": sum(row.records for row in rows),
            "partitions": [_row(row) for row in rows],
        }
        return json_response(shown)

    async def _settled(self, group_id: str) -> GroupMachine:
        """The group, once everything that will be told of it is durable."""
        if not self._coordination.is_open:
            raise UnknownGroup(f"there is no group {group_id!r}: nobody has used one yet")
        group = self._coordination.groups.find(group_id)
        if group is None:
            raise UnknownGroup(f"there is no group {group_id!r}")
        shard = self._coordination.groups.shard_of(group_id)
        await _told(lambda settled: shard.when_kept(group_id, settled))
        return group

    def _members(self, group: GroupMachine) -> list[dict[str, Any]]:
        if isinstance(group, ConsumerGroup):
            return [
                _member(one, member.client_id, member.client_host, self._named(group.standing(one).assigned))
                for one, member in sorted(group.members.items())
            ]
        if isinstance(group, Group):
            return [
                _member(one.id, one.client_id, one.client_host, _assigned(one.assignment))
                for one in group.members.values()
            ]
        return []

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
