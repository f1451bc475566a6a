"""The comparison of replicas over HTTP: start a round on all brokers, and see what was found."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import InvalidRequest
from penstock.doors.http.errors import refusal_fields
from penstock.doors.http.exchange import Exchange
from penstock.node.waist.scrub import BrokerScrub
from penstock.node.waist.waist import Waist
from penstock.wire.http.messages import read_object
from penstock.wire.http.response import Response, json_response


class HttpScrubHandlers:
    """Handlers of requests about the comparison of replicas."""

    def __init__(self, waist: Waist) -> None:
        self._verbs = waist.scrub

    async def start(self, exchange: Exchange) -> Response:
        """POST /api/v1/cluster/scrub"""
        topic = read_object(exchange.request.body, ("topic",)).get("topic")
        if topic is not None and not isinstance(topic, str):
            raise InvalidRequest("'topic' must be a string")
        return _found(await self._verbs.start(exchange.session, topic))

    async def progress(self, exchange: Exchange) -> Response:
        """GET /api/v1/cluster/scrub"""
        return _found(await self._verbs.progress(exchange.session))


def _found(brokers: list[BrokerScrub]) -> Response:
    known = [one.progress for one in brokers if one.progress is not None]
    content: dict[str, Any] = {
        "running": any(one.is_running for one in known),
        "scrubbed_bytes": sum(one.scrubbed_bytes for one in known),
        "differences": sum(one.differences for one in known),
        "repairs": sum(one.repairs for one in known),
        "brokers": [_broker(one) for one in brokers],
    }
    if len(known) < len(brokers):
        content["partial"] = True
    return json_response(content)


def _broker(one: BrokerScrub) -> dict[str, Any]:
    if one.progress is None:
        return {"id": one.broker_id} | ({} if one.error is None else {"error": refusal_fields(one.error)})
    found = one.progress._asdict()
    return {"id": one.broker_id, "running": found.pop("is_running"), **found}
