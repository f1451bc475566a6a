"""The HTTP door of a broker: the handlers of its routes, and WebSockets. `dispatch` runs the requests."""

from __future__ import annotations

from functools import partial

from penstock.core.errors import BrokerError
from penstock.doors.http.cluster import HttpClusterHandlers
from penstock.doors.http.conversation import HttpConversation
from penstock.doors.http.dispatch import HttpDispatch
from penstock.doors.http.exchange import Exchange
from penstock.doors.http.groups import HttpGroupHandlers
from penstock.doors.http.health import HealthHandlers
from penstock.doors.http.messages import MessageHandlers
from penstock.doors.http.moves import HttpMoveHandlers
from penstock.doors.http.offsets import HttpOffsetHandlers
from penstock.doors.http.openapi import openapi_document
from penstock.doors.http.origins import WebSettings
from penstock.doors.http.placement import HttpPlacementHandlers
from penstock.doors.http.query import read_query
from penstock.doors.http.routes import Match, Route, make_routes
from penstock.doors.http.scrub import HttpScrubHandlers
from penstock.doors.http.subscriptions import HttpSubscriptionHandlers
from penstock.doors.http.tail import Tails, upgrade_response
from penstock.doors.http.topics import HttpTopicHandlers
from penstock.node.connections.gate import Gate
from penstock.node.connections.reply_slot import ReplySlot
from penstock.node.waist.waist import Waist
from penstock.wire.http.request import Request
from penstock.wire.http.response import Response, json_response


class HttpDoor(HttpDispatch):
    """The HTTP dialect of a broker and its table of handlers."""

    def __init__(self, waist: Waist, gate: Gate, settings: WebSettings) -> None:
        self._reader = waist.reader()
        self._tails = Tails(waist.topics, self._reader)
        self._health = HealthHandlers(waist)
        self._described: Response | None = None
        routes = make_routes(
            MessageHandlers(waist.publisher(), self._reader),
            HttpTopicHandlers(waist),
            HttpGroupHandlers(waist),
            HttpOffsetHandlers(waist),
            HttpSubscriptionHandlers(waist),
            HttpClusterHandlers(waist),
            HttpMoveHandlers(waist),
            HttpPlacementHandlers(waist),
            HttpScrubHandlers(waist),
            self._health,
            self._openapi,
        )
        super().__init__(waist, gate, settings, routes)

    def release_waiting(self) -> None:
        self._health.is_closing = True
        self._reader.release_waiting()
        self._tails.close()

    def _openapi(self, exchange: Exchange) -> Response:
        """GET /openapi.json"""
        if self._described is None:
            self._described = json_response(openapi_document(self.routes))
        return self._described

    # -- WebSocket

    def upgrade(self, conversation: HttpConversation, request: Request) -> None:
        """Switch the connection to a tail, after earlier requests."""
        match = self._router.find(request.path)
        route = self._route(request, match)
        if route is None or route.handler is not None or request.method != "GET":
            super().upgrade(conversation, request)
            return
        assert match is not None
        conversation.connection.timing = self._timings[route.call]
        conversation.connection.turns.in_turn(partial(self._begin_tail, conversation, request, match, route))

    def _begin_tail(
        self, conversation: HttpConversation, request: Request, match: Match, route: Route, slot: ReplySlot
    ) -> None:
        exchange = self._exchange(conversation.connection, request, slot)
        exchange.parts = match.parts
        if (foreign := self._foreign(request, is_change=True)) is not None:
            request.keeps_alive = False
            exchange.reply(foreign)
            return
        self._spawn(exchange, self._make_tail(conversation, exchange, route))

    async def _make_tail(self, conversation: HttpConversation, exchange: Exchange, route: Route) -> None:
        """Accept the upgrade once the tail knows where it starts, which other brokers may have to tell."""
        request = exchange.request
        try:
            exchange.query = read_query(request.query, route.query, has_filter=True)
            accepted = upgrade_response(request)
            tail = await self._tails.make(exchange)
        except BrokerError as error:
            request.keeps_alive = False
            exchange.refuse(error)
            return
        if not exchange.connection.is_closed:
            exchange.reply(accepted)
            conversation.become(tail)
