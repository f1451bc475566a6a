"""Elections and reassignments over HTTP. `moves` shows what is in progress."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from penstock.core.errors import BrokerError, InvalidRequest
from penstock.core.limits import ADMIN_ENTRIES_MAX, BROKER_ID_MAX, PARTITIONS_PER_TOPIC_MAX
from penstock.doors.http.errors import refusal_fields
from penstock.doors.http.exchange import Exchange
from penstock.doors.http.moves import planned_moves
from penstock.node.runtime.slices import Sliced
from penstock.node.waist.moves import WantedReplicas
from penstock.node.waist.placement import PlacementOutcome
from penstock.node.waist.waist import Waist
from penstock.wire.http.messages import check_object, read_number, read_object, read_text
from penstock.wire.http.response import Response, json_rows

FACTOR_MAX = 2**15 - 1
KINDS = {"preferred": 0, "unclean": 1}
"""Elections by name, with Kafka's numbers."""
_ELECTION_FIELDS = ("kind", "partitions")
_PLACE_FIELDS = ("topic", "partition")
_REASSIGNMENT_FIELDS = (*_PLACE_FIELDS, "replicas", "replication_factor", "cancel")

Elected = tuple[str, int, PlacementOutcome | BrokerError]


class HttpPlacementHandlers:
    """Handlers of requests that elect leaders and reassign replicas."""

    def __init__(self, waist: Waist) -> None:
        self._slices = waist.slices
        self._elections = waist.placement
        self._moves = waist.moves()
        self._topics = waist.topics

    # -- elections

    async def elect(self, exchange: Exchange) -> Response:
        """POST /api/v1/cluster/elections"""
        found = read_object(exchange.request.body, _ELECTION_FIELDS)
        kind = found.get("kind", "preferred")
        if not isinstance(kind, str) or kind not in KINDS:
            raise InvalidRequest(f"'kind' must be {' or '.join(KINDS)}")
        session, number = exchange.session, KINDS[kind]
        if "partitions" in found:
            places = self._places(exchange, found["partitions"])
        else:
            electable = self._elections.electable(session, number)
            places = [(topic, index) for topic, indexes in electable for index in indexes]
        outcomes = await self._elections.elect_all(session, number, places)
        results = [(*place, outcome) for place, outcome in zip(places, outcomes, strict=True)]
        return await self._slices.run(self._elected(exchange, kind, results))

    def _places(self, exchange: Exchange, listed: Any) -> list[tuple[str, int]]:
        places: list[tuple[str, int]] = []
        for one in _entries(listed, "partitions"):
            found = check_object(one, _PLACE_FIELDS, "a partition")
            topic, index = _read_place(found, "a partition")
            count = self._topics.get(exchange.session, topic).partition_count
            places += [(topic, each) for each in (range(count) if index is None else [index])]
        if len(places) > ADMIN_ENTRIES_MAX:
            raise InvalidRequest(f"one request can name at most {ADMIN_ENTRIES_MAX} partitions")
        return places

    def _elected(self, exchange: Exchange, kind: str, results: Sequence[Elected]) -> Sliced[Response]:
        failed = sum(isinstance(one, BrokerError) or one is PlacementOutcome.OFFLINE for _, _, one in results)
        rows = (self._row(exchange, *one) for one in results)
        response = yield from json_rows({"kind": kind, "failed": failed}, "elections", rows)
        return response._replace(status=HTTPStatus.MULTI_STATUS) if failed else response

    def _row(
        self, exchange: Exchange, topic: str, index: int, outcome: PlacementOutcome | BrokerError
    ) -> dict[str, Any]:
        row: dict[str, Any] = {
            "topic": topic,
            "partition": index,
            "elected": outcome is PlacementOutcome.DONE,
        }
        if isinstance(outcome, BrokerError):
            return {**row, "error": refusal_fields(outcome)}
        try:
            states = self._topics.states(exchange.session, topic, index, 1)
            leaders = [one.leader_id for one in states if one.leader_id >= 0]
        except BrokerError:  # deleted meanwhile
            leaders = []
        return {**row, "leader": leaders[0] if leaders else None}

    # -- reassignments

    async def reassign(self, exchange: Exchange) -> Response:
        """POST /api/v1/cluster/reassignments"""
        found = read_object(exchange.request.body, ("reassignments",))
        wanted = [_read_wanted(one) for one in _entries(found.get("reassignments"), "reassignments")]
        is_dry_run = exchange.query["dry_run"] == "true"
        moves = await self._moves.reassign(exchange.session, wanted, is_dry_run=is_dry_run)
        return await self._slices.run(planned_moves(moves, is_dry_run=is_dry_run))


def _entries(listed: Any, name: str) -> list[Any]:
    if not isinstance(listed, list) or not 1 <= len(listed) <= ADMIN_ENTRIES_MAX:
        raise InvalidRequest(f"the body needs {name!r}, a list of 1 to {ADMIN_ENTRIES_MAX} entries")
    return listed


def _read_place(found: dict[str, Any], where: str) -> tuple[str, int | None]:
    topic = read_text(found, "topic", where)
    return topic, read_number(found, "partition", 0, PARTITIONS_PER_TOPIC_MAX - 1, where)


def _read_wanted(one: Any) -> WantedReplicas:
    where = "a reassignment"
    found = check_object(one, _REASSIGNMENT_FIELDS, where)
    topic, index = _read_place(found, where)
    if sum(name in found for name in ("replicas", "replication_factor", "cancel")) != 1:
        raise InvalidRequest(f"{where} needs one of 'replicas', 'replication_factor' and 'cancel'")
    if "cancel" in found:
        if found["cancel"] is not True:
            raise InvalidRequest("'cancel' must be true")
        return WantedReplicas(topic, index)
    if "replication_factor" in found:
        return WantedReplicas(
            topic, index, factor=read_number(found, "replication_factor", 1, FACTOR_MAX, where)
        )
    replicas = found["replicas"]
    if not isinstance(replicas, list) or not replicas or len(replicas) > FACTOR_MAX:
        raise InvalidRequest("'replicas' must be a list of broker ids")
    ids = [read_number({"id": one}, "id", 0, BROKER_ID_MAX, "a replica") for one in replicas]
    return WantedReplicas(topic, index, [one for one in ids if one is not None])
