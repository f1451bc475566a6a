"""Subscriptions over HTTP: list, create, describe, delete, redrive. Members join over the queue protocol."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from penstock.core.errors import InvalidRequest, UnknownGroup
from penstock.doors.http.errors import problem_of, refusal_fields
from penstock.doors.http.exchange import Exchange
from penstock.doors.http.query import EARLIEST, LATEST, OFFSET_MAX
from penstock.node.waist.subscriptions import SubscriptionRequest
from penstock.node.waist.waist import Waist
from penstock.wire.http.messages import read_number, read_object, read_text
from penstock.wire.http.response import JSON, Response, json_response, json_rows

NUMBER_MAX = 2**31 - 1
_CREATE_FIELDS = ("name", "topic", "start_offset", "hold_ms", "max_deliveries")
_STARTS = {EARLIEST: -2, LATEST: -1}
_WHERE = "the subscription"


class HttpSubscriptionHandlers:
    """Handlers of requests about subscriptions."""

    def __init__(self, waist: Waist) -> None:
        self._slices = waist.slices
        self._verbs = waist.forwarded_subscriptions

    async def all(self, exchange: Exchange) -> Response:
        """GET /api/v1/subscriptions"""
        listing = await self._verbs.list(exchange.session)
        missing = [refusal_fields(error) for error in listing.missing]
        head = {"partial": True, "errors": missing} if missing else {}
        return await self._slices.run(json_rows(head, "subscriptions", listing.rows))

    async def create(self, exchange: Exchange) -> Response:
        """POST /api/v1/subscriptions"""
        found = read_object(exchange.request.body, _CREATE_FIELDS)
        name = read_text(found, "name", _WHERE)
        request = SubscriptionRequest(
            name,
            read_text(found, "topic", _WHERE),
            _start(found),
            read_number(found, "hold_ms", 1, NUMBER_MAX, _WHERE),
            read_number(found, "max_deliveries", 1, NUMBER_MAX, _WHERE),
        )
        try:
            is_new = await self._verbs.create(exchange.session, request)
        except InvalidRequest as error:
            return problem_of(error, await self._status(exchange, name))
        content = await self._verbs.describe(exchange.session, name)
        place = ("Location", f"/api/v1/subscriptions/{quote(name, safe='')}")
        return Response(HTTPStatus.CREATED if is_new else HTTPStatus.OK, content, JSON, [place])

    async def _status(self, exchange: Exchange, name: str) -> HTTPStatus:
        """The status of a subscription that was refused: another one has the name, or its values are invalid."""
        try:
            await self._verbs.describe(exchange.session, name)
        except UnknownGroup:
            return HTTPStatus.UNPROCESSABLE_ENTITY
        return HTTPStatus.CONFLICT

    async def describe(self, exchange: Exchange) -> Response:
        """GET /api/v1/subscriptions/{subscription}"""
        content = await self._verbs.describe(exchange.session, exchange.parts["subscription"])
        return Response(HTTPStatus.OK, content)

    async def delete(self, exchange: Exchange) -> Response:
        """DELETE /api/v1/subscriptions/{subscription}"""
        await self._verbs.delete(exchange.session, exchange.parts["subscription"])
        return Response(HTTPStatus.NO_CONTENT)

    async def redrive(self, exchange: Exchange) -> Response:
        """POST /api/v1/subscriptions/{subscription}/redrive"""
        found = read_object(exchange.request.body, ("count",))
        count = read_number(found, "count", 1, OFFSET_MAX, "the redrive")
        moved = await self._verbs.redrive(exchange.session, exchange.parts["subscription"], count)
        return json_response({"redriven": moved})


def _start(found: dict[str, Any]) -> int:
    start = found.get("start_offset", EARLIEST)
    if isinstance(start, str):
        if start not in _STARTS:
            raise InvalidRequest(f"'start_offset' of {_WHERE} must be a number, {EARLIEST} or {LATEST}")
        return _STARTS[start]
    number = read_number({"start_offset": start}, "start_offset", 0, OFFSET_MAX, _WHERE)
    assert number is not None
    return number
