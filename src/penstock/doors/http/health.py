"""What watches a broker: alive, ready, metrics. Never says more than it knows."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from penstock.doors.http.exchange import Exchange
from penstock.node.metrics.exposition import CONTENT_TYPE
from penstock.node.waist.waist import Waist
from penstock.wire.http.response import Response, json_response


class HealthHandlers:
    """Answers those who watch."""

    def __init__(self, waist: Waist) -> None:
        self._verbs = waist.cluster
        self.is_closing = False

    def alive(self, exchange: Exchange) -> Response:
        """GET /healthz: that it answers is the answer."""
        return json_response({"status": "alive"})

    def ready(self, exchange: Exchange) -> Response:
        """GET /readyz: whether topics can be made and used. Single partitions that are offline are only told of."""
        is_online, offline = self._verbs.readiness(exchange.session)
        is_ready = is_online and not self.is_closing
        status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        status_text = "ready" if is_ready else "stopping" if self.is_closing else "offline"
        return json_response({"status": status_text, "offline_partitions": offline}, status)

    async def metrics(self, exchange: Exchange) -> Response:
        """GET /metrics; others get their turn between the pieces."""
        pieces = []
        for piece in self._verbs.metrics(exchange.session):
            pieces.append(piece)
            await asyncio.sleep(0)
        return Response(HTTPStatus.OK, b"".join(pieces), CONTENT_TYPE)
