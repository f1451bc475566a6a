"""Groups over HTTP: list, describe, lag. Read-only."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any

from penstock.doors.http.errors import refusal_fields
from penstock.doors.http.exchange import Exchange
from penstock.node.runtime.slices import CHUNK, Sliced
from penstock.node.waist.group_descriptions import MemberOutline
from penstock.node.waist.groups import Lag, ListedGroup
from penstock.node.waist.waist import Waist
from penstock.wire.http.response import Response, json_rows


class HttpGroupHandlers:
    """Handlers of group requests."""

    def __init__(self, waist: Waist) -> None:
        self._slices = waist.slices
        self._verbs = waist.groups
        self._forwarded = waist.forwarded_groups

    def all(self, exchange: Exchange) -> Sliced[Response] | Coroutine[Any, Any, Response]:
        """GET /api/v1/groups"""
        return self._list_here(exchange) if self._verbs.are_here else self._list_everywhere(exchange)

    def _list_here(self, exchange: Exchange) -> Sliced[Response]:
        listed = yield from self._verbs.all(exchange.session)
        return (yield from json_rows({}, "groups", map(_line, listed)))

    async def _list_everywhere(self, exchange: Exchange) -> Response:
        listing = await self._verbs.everywhere(exchange.session)
        missing = [refusal_fields(error) for error in listing.silent]
        head = {"partial": True, "errors": missing} if missing else {}
        return await self._slices.run(json_rows(head, "groups", map(_line, listing.groups)))

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
    head: dict[str, Any] = {"group": group_id, "lag": sum(row.records for row in rows)}
    if any(row.error is not None for row in rows):
        head["partial"] = True
    return (yield from json_rows(head, "partitions", map(_row, rows)))


def _line(group: ListedGroup) -> dict[str, Any]:
    return {"group": group.group_id, "kind": group.kind, "state": group.state_name}


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
    """Without end offset and lag if the broker that leads the partition did not tell."""
    row = {
        "topic": lag.place.topic,
        "partition": lag.place.partition,
        "committed_offset": lag.committed_offset,
    }
    if lag.error is not None:
        return {**row, "end_offset": None, "lag": None, "error": refusal_fields(lag.error)}
    return {**row, "end_offset": lag.end_offset, "lag": lag.records}
