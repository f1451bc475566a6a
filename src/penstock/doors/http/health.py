"""Health checks and metrics over HTTP."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from penstock.doors.http.exchange import Exchange
from penstock.node.metrics.exposition import CONTENT_TYPE
from penstock.node.waist.waist import Waist
from penstock.wire.http.response import Response, json_response


class HealthHandlers:
    """Handlers of health checks and metrics."""

    def __init__(self, waist: Waist) -> None:
        self._verbs = waist.cluster
        self._groups = waist.groups
        self.is_closing = False

    def alive(self, exchange: Exchange) -> Response:
        """GET /healthz: the process responds."""
        return json_response({"status": "alive"})

    def ready(self, exchange: Exchange) -> Response:
        """GET /readyz: whether topics can be created and used. Offline partitions, and a session that is not alive,
        are told but do not affect the status: the broker serves on."""
        found = self._verbs.readiness(exchange.session)
        is_ready = found.is_online and not self.is_closing
        status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        status_text = "ready" if is_ready else "stopping" if self.is_closing else "offline"
        content: dict[str, object] = {"status": status_text, "offline_partitions": found.offline_partitions}
        if not is_ready:
            content["reason"] = "this broker is stopping" if self.is_closing else found.reason
        if found.has_session is not None:
            content["session_alive"] = found.has_session
        return json_response(content, status)

    async def metrics(self, exchange: Exchange) -> Response:
        """GET /metrics; asks other brokers for the lag of groups, and yields to other tasks between the pieces."""
        await self._groups.learn_bounds(exchange.session)
        pieces = []
        for piece in self._verbs.metrics(exchange.session):
            pieces.append(piece)
            await asyncio.sleep(0)
        return Response(HTTPStatus.OK, b"".join(pieces), CONTENT_TYPE)
