"""Moves of partitions between brokers over HTTP: list, rebalance, drain. `cluster` describes the brokers."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from penstock.core.errors import UnknownBroker
from penstock.doors.http.exchange import Exchange
from penstock.doors.http.query import Choice, Field
from penstock.node.runtime.slices import Sliced
from penstock.node.waist.moves import OngoingMove, PlannedMove
from penstock.node.waist.waist import Waist
from penstock.wire.http.response import Response, json_rows

DRY_RUN_FIELDS = (
    Field("dry_run", Choice(("false", "true")), "false", "Whether moves are only proposed, not started."),
)
_DIGITS_MAX = 10


class HttpMoveHandlers:
    """Handlers of requests about moves."""

    def __init__(self, waist: Waist) -> None:
        self._slices = waist.slices
        self._verbs = waist.moves()

    def ongoing(self, exchange: Exchange) -> Sliced[Response]:
        """GET /api/v1/cluster/moves"""
        return json_rows({}, "moves", map(_ongoing, self._verbs.ongoing(exchange.session)))

    async def rebalance(self, exchange: Exchange) -> Response:
        """POST /api/v1/cluster/rebalance"""
        is_dry_run = exchange.query["dry_run"] == "true"
        moves = await self._verbs.rebalance(exchange.session, is_dry_run=is_dry_run)
        return await self._slices.run(planned_moves(moves, is_dry_run=is_dry_run))

    async def drain(self, exchange: Exchange) -> Response:
        """POST /api/v1/cluster/brokers/{broker}/drain"""
        is_dry_run = exchange.query["dry_run"] == "true"
        moves = await self._verbs.drain(exchange.session, _broker_id(exchange), is_dry_run=is_dry_run)
        return await self._slices.run(planned_moves(moves, is_dry_run=is_dry_run))

    async def undrain(self, exchange: Exchange) -> Response:
        """DELETE /api/v1/cluster/brokers/{broker}/drain"""
        await self._verbs.undrain(exchange.session, _broker_id(exchange))
        return Response(HTTPStatus.NO_CONTENT)


def planned_moves(moves: list[PlannedMove], *, is_dry_run: bool) -> Sliced[Response]:
    """The response to a request that moves partitions."""
    return json_rows({"started": not is_dry_run}, "moves", map(_move, moves))


def _broker_id(exchange: Exchange) -> int:
    text = exchange.parts["broker"]
    if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS_MAX:
        raise UnknownBroker(f"{text[:100]!r} is not the id of a broker")
    return int(text)


def _move(one: PlannedMove | OngoingMove) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "from": list(one.before),
        "to": list(one.after),
    }


def _ongoing(one: OngoingMove) -> dict[str, Any]:
    return {
        **_move(one),
        "leader": None if one.leader_id < 0 else one.leader_id,
        "copying": one.is_copying,
        "copied_bytes": one.copied_bytes,
        "left_bytes": one.bytes_left,
        "bytes_per_s": one.bytes_per_s,
    }
