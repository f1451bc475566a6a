"""Requests of one HTTP port: routes them, checks the rules of HTTP itself, and runs the handlers of a table of routes.

Knows no handler. The HTTP door of a broker and the API of a coordinator are built on it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from http import HTTPStatus
from types import CoroutineType, GeneratorType
from typing import Any, Protocol, TypeVar

from penstock.core.errors import BrokerError
from penstock.doors.http.conversation import BODY_BYTES_MAX, HttpConversation
from penstock.doors.http.errors import DOOR, problem
from penstock.doors.http.exchange import MS_PER_S, Exchange
from penstock.doors.http.origins import SAFE_METHODS, Hosts, Origins, WebSettings
from penstock.doors.http.query import read_query
from penstock.doors.http.routes import Match, Route, Router
from penstock.node.connections.connection import Connection
from penstock.node.connections.gate import Gate
from penstock.node.connections.reply_slot import ReplySlot
from penstock.node.runtime.meters import DoorMeter
from penstock.node.runtime.slices import Sliced, Slices
from penstock.node.runtime.tasks import Tasks
from penstock.wire.http.inflation import CODINGS, Inflation
from penstock.wire.http.request import Request
from penstock.wire.http.response import JSON, Response

UNKNOWN_CALL = "unknown"
INFLATED_BYTES_AT_ONCE = 1 << 16
"""Gzip bodies up to this size are decompressed on the loop, larger ones in a worker."""
CLIENT_CHARS_MAX = 200
"""Maximum length of a User-Agent in logs."""

T = TypeVar("T")


class DispatchGround(Protocol):
    """What requests run on; the waist of a broker has all of it."""

    @property
    def slices(self) -> Slices: ...

    @property
    def now_ms(self) -> Callable[[], int]: ...

    @property
    def meter(self) -> Callable[[str], DoorMeter]:
        """The meters of a door, by its name."""

    async def run_blocking(self, work: Callable[[], T]) -> T: ...


class HttpDispatch:
    """The HTTP dialect over a table of routes. Serves no WebSockets by itself."""

    name = DOOR
    server = "broker"
    """How error messages call this server."""
    paths_advice = "See /openapi.json for the available paths."
    hosts_advice = (
        "Use the broker's IP address, localhost, or its advertised_host; or add the name to the setting "
        "http_allowed_hosts."
    )
    origins_advice = "Add the origin to the setting http_cors_origins if you trust its pages."

    def __init__(
        self, ground: DispatchGround, gate: Gate, settings: WebSettings, routes: Sequence[Route]
    ) -> None:
        self._ground = ground
        self._body_bytes_max = gate.limits.frame_bytes_max
        self.budget = gate.budget
        self._tasks = Tasks()
        self._hosts = Hosts(settings)
        self._origins = Origins(settings)
        self.routes = tuple(routes)
        self._router = Router(self.routes)
        meter = ground.meter(self.name)
        self._timings = {route.call: meter.call(route.call) for route in self.routes}
        self._unknown = meter.call(UNKNOWN_CALL)

    # -- dialect

    def open(self, connection: Connection) -> HttpConversation:
        return HttpConversation(self, connection, self._body_bytes_max)

    def release_waiting(self) -> None:
        """No call waits here."""

    def now_s(self) -> float:
        return self._ground.now_ms() / MS_PER_S

    def upgrade(self, conversation: HttpConversation, request: Request) -> None:
        """Answer a request to upgrade as an ordinary one."""
        request.keeps_alive = False  # what follows it is no longer parsed as HTTP
        self.start(conversation, request)

    # -- requests

    def start(self, conversation: HttpConversation, request: Request) -> None:
        """Start a request, or queue it until its turn."""
        connection = conversation.connection
        match = self._router.find(request.path)
        route = self._route(request, match)
        connection.timing = self._unknown if route is None else self._timings[route.call]
        if "user-agent" in request.headers:
            client_id = request.headers["user-agent"][:CLIENT_CHARS_MAX]
            if client_id != connection.session.client_id:
                connection.session = connection.session.with_client(client_id)
        run = partial(self._run, connection, request, match, route)
        if route is not None and route.is_write and not request.coding:
            connection.turns.beside(run)
        else:
            connection.turns.in_turn(run)

    def _route(self, request: Request, match: Match | None) -> Route | None:
        method = "GET" if request.method == "HEAD" else request.method
        return None if match is None else match.routes.get(method)

    def _run(
        self,
        connection: Connection,
        request: Request,
        match: Match | None,
        route: Route | None,
        slot: ReplySlot,
    ) -> None:
        exchange = self._exchange(connection, request, slot)
        refusal = self._refusal(request, match, route)
        if refusal is not None:
            exchange.reply(refusal)
            return
        assert match is not None and route is not None and route.handler is not None
        exchange.parts = match.parts
        if request.coding:
            self._spawn(exchange, self._handle_inflated(exchange, route))
        else:
            self._handle(exchange, route)

    def _exchange(self, connection: Connection, request: Request, slot: ReplySlot) -> Exchange:
        return Exchange(connection, slot, request, self._origins, self._ground.now_ms)

    def _handle(self, exchange: Exchange, route: Route) -> None:
        assert route.handler is not None
        try:
            exchange.query = read_query(exchange.request.query, route.query)
            answer = route.handler(exchange)
        except BrokerError as error:
            exchange.refuse(error)
            return
        if isinstance(answer, Response):
            exchange.reply(answer)
        elif type(answer) is GeneratorType:
            self._slice(exchange, answer)
        elif answer is not None:
            assert type(answer) is CoroutineType
            self._spawn(exchange, self._finish(exchange, answer))

    def _slice(self, exchange: Exchange, steps: Sliced[Response | None]) -> None:
        """Run a handler that works in slices; later requests wait until it has ended."""
        slices = self._ground.slices
        if slices.start(steps, exchange.settle):
            return
        release_hold = exchange.connection.hold()

        def ended_later(outcome: Response | Exception | None) -> None:
            exchange.settle(outcome)
            release_hold()

        slices.queue(steps, ended_later)

    async def _finish(self, exchange: Exchange, work: CoroutineType[Any, Any, Response]) -> None:
        try:
            exchange.reply(await work)
        except BrokerError as error:
            exchange.refuse(error)

    async def _handle_inflated(self, exchange: Exchange, route: Route) -> None:
        """Decompress the body, a large one in a worker; meanwhile its bytes count as in flight."""
        request, budget = exchange.request, self.budget
        packed_bytes = len(request.body)
        inflation = Inflation(request.body, min(BODY_BYTES_MAX, self._body_bytes_max))
        budget.change(packed_bytes)
        try:
            if not inflation.run(INFLATED_BYTES_AT_ONCE):
                await self._ground.run_blocking(inflation.run)
            request.body = inflation.content()
        except BrokerError as error:
            exchange.refuse(error)
            return
        finally:
            budget.change(-packed_bytes)
        self._handle(exchange, route)

    def _spawn(self, exchange: Exchange, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.spawn(work, lambda error: exchange.connection.close(f"defect: {error!r}"))

    def _refusal(self, request: Request, match: Match | None, route: Route | None) -> Response | None:
        """The rejection of a request by the rules of HTTP itself, before a handler runs."""
        if (foreign := self._foreign(request, is_change=request.method not in SAFE_METHODS)) is not None:
            return foreign
        if match is None:
            detail = f"path {request.path[:200]} does not exist"
            return problem(HTTPStatus.NOT_FOUND, "NoSuchPath", detail, self.paths_advice)
        allow = ("Allow", match.allow)
        if request.method == "OPTIONS":
            return Response(
                HTTPStatus.NO_CONTENT, headers=[allow, *self._origins.preflight(request, match.allow)]
            )
        if route is None:
            detail = f"method {request.method} is not allowed for this path"
            advice = f"Use one of {match.allow}."
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, "NoSuchMethod", detail, advice, [allow])
        if route.handler is None:
            advice = "Connect with a WebSocket client, for example examples/http_tail.py."
            needed = [("Upgrade", "websocket"), ("Connection", "Upgrade")]
            return problem(
                HTTPStatus.UPGRADE_REQUIRED, "WebSocketOnly", "a tail requires a WebSocket", advice, needed
            )
        return _body_refusal(request) if route.body is not None else _unexpected_body(request)

    def _foreign(self, request: Request, *, is_change: bool) -> Response | None:
        """The rejection of a request that a web page of another site may have sent on behalf of its user."""
        if not self._hosts.allows(request):
            named = request.authority or request.headers.get("host", "")
            return problem(
                HTTPStatus.MISDIRECTED_REQUEST,
                "UnknownHost",
                f"{named[:200]!r} is not a known name of this {self.server}",
                self.hosts_advice,
            )
        if is_change and self._origins.is_foreign(request):
            return problem(
                HTTPStatus.FORBIDDEN,
                "ForeignOrigin",
                f"web pages of {request.headers['origin'][:200]!r} are not allowed to do this",
                self.origins_advice,
            )
        return None


def _body_refusal(request: Request) -> Response | None:
    if not request.has_body:
        advice = "Send the body with Content-Length, or in chunks."
        return problem(HTTPStatus.LENGTH_REQUIRED, "NoLength", "a body is required", advice)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.coding and request.coding not in CODINGS:
        detail = f"content encoding {request.coding[:100]!r} is not supported"
        advice = "Send the body uncompressed, or compressed with gzip."
        understood = [("Accept-Encoding", "gzip")]
        return problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "UnknownCoding", detail, advice, understood)
    if kind != JSON:
        found = f"not {kind[:100]}" if kind else "and Content-Type is missing"
        advice = f"Send Content-Type: {JSON}."
        return problem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "NotJson", f"the body must be JSON, {found}", advice
        )
    return None


def _unexpected_body(request: Request) -> Response | None:
    if not request.body:
        return None
    return problem(
        HTTPStatus.BAD_REQUEST,
        "UnaskedBody",
        "this request takes no body",
        "Send the request without a body.",
    )
