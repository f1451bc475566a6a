"""Groups over HTTP: list, describe, lag. Read-only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.doors.http.exchange import Exchange
from penstock.node.runtime.slices import CHUNK, Sliced
from penstock.node.waist.group_descriptions import MemberOutline
from penstock.node.waist.groups import Lag
from penstock.node.waist.waist import Waist
from penstock.wire.http.response import Response, json_rows


class HttpGroupHandlers:
    """Handlers of group requests."""

    def __init__(self, waist: Waist) -> None:
        self._slices = waist.slices
        self._verbs = waist.groups
        self._forwarded = waist.forwarded_groups

    def all(self, exchange: Exchange) -> Sliced[Response]:
        """GET /api/v1/groups"""
        listed = yield from self._verbs.all(exchange.session)
        rows = ({"group": one.group_id, "kind": one.kind, "state": one.state_name} for one in listed)
        return (yield from json_rows({}, "groups", rows))

    async def describe(self, exchange: Exchange) -> Response:
        """GET /api/v1/groups/{group}"""
        group = await self._forwarded.outline(exchange.session, exchange.parts["group"])
        head = {"group": group.group_id, "kind": group.kind, "state": group.state_name}
        return await self._slices.run(json_rows(head, "members", map(_member, group.members)))

    async def lag(self, exchange: Exchange) -> Response:
        """GET /api/v1/groups/{group}/lag"""
        group_id = exchange.parts["group"]
        found = await self._forwarded.lag(exchange.session, group_id)
        return await self._slices.run(_lag(group_id, found))


def _lag(group_id: str, found: Iterator[Lag]) -> Sliced[Response]:
    rows = []
    for row in found:
        rows.append(row)
        if len(rows) % CHUNK == 0:
            yield CHUNK // 4
    head = {"group": group_id, "lag": sum(row.records for row in rows)}
    return (yield from json_rows(head, "partitions", map(_row, rows)))


def _member(member: MemberOutline) -> dict[str, Any]:
    return {
        "member": member.id,
        "client_id": member.client_id,
        "host": member.client_host,
        "partitions": [
            {"topic": topic, "partition": partition}
            for topic in sorted(member.assigned)
            for partition in sorted(member.assigned[topic])
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
