"""The HTTP API of a coordinator: services, commands, and where the brokers are. Built on the dispatch of the HTTP door.

Reads need no token. Changes and logs need `Authorization: Bearer TOKEN`; Host and Origin are checked as on the HTTP
door of a broker (docs/adr/0016).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

from penstock.apps.control.api_content import cluster_content, health_content, metrics_text
from penstock.apps.control.commands import (
    LOG_LINES_DEFAULT,
    LOG_LINES_MAX,
    Command,
    ConsoleError,
    FailureKind,
    Verb,
    parse_command,
)
from penstock.apps.control.console import Console, service_content
from penstock.apps.control.console_token import is_same_token
from penstock.apps.control.result import CommandResult
from penstock.apps.control.services import Services
from penstock.core.errors import InvalidRequest
from penstock.doors.http.dispatch import HttpDispatch
from penstock.doors.http.errors import problem
from penstock.doors.http.exchange import Exchange
from penstock.doors.http.query import Field, Number
from penstock.doors.http.routes import Handler, Route
from penstock.node.connections.addresses import Address
from penstock.node.connections.gate import Gate
from penstock.node.connections.listener import Listener
from penstock.node.metrics.exposition import CONTENT_TYPE
from penstock.node.runtime.clock import SystemClock
from penstock.node.runtime.meters import Meters
from penstock.node.runtime.slices import Slices
from penstock.node.settings import Settings
from penstock.wire.http.messages import read_object
from penstock.wire.http.response import Response, json_response

API_ADDRESS = Address("127.0.0.1", 8080)
API_CONNECTIONS_MAX = 256
BODY_BYTES_MAX = 64 << 10
_BEARER = "bearer"
_CHANGES = (Verb.START, Verb.STOP, Verb.RESTART, Verb.KILL)
_LINES = Field(
    "lines", Number(1, LOG_LINES_MAX), LOG_LINES_DEFAULT, "How many lines from the end of the log."
)

T = TypeVar("T")


class ApiGround:
    """What the requests run on: no broker, so meters and slices of its own."""

    def __init__(self) -> None:
        self.slices = Slices()
        self.now_ms: Callable[[], int] = SystemClock().now_ms
        self.meter = Meters().door

    async def run_blocking(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)


class ApiHandlers:
    """Handlers of all requests. Each change is a command of the console."""

    def __init__(self, console: Console, token: str | None) -> None:
        self._console = console
        self._services = console.services
        self._token = token

    def _is_trusted(self, exchange: Exchange) -> bool:
        if self._token is None:
            return True
        scheme, _, given = exchange.request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == _BEARER and is_same_token(given.strip(), self._token)

    async def _execute(self, exchange: Exchange, command: Command) -> Response:
        try:
            result = await self._console.execute(command, is_trusted=self._is_trusted(exchange))
        except ConsoleError as error:
            return _refusal(error)
        return json_response(result.content)

    # -- reads

    def show(self, verb: Verb, exchange: Exchange) -> Coroutine[Any, Any, Response]:
        """GET /api/v1/status, leaders, topics, lag"""
        return self._execute(exchange, Command(verb))

    def service(self, exchange: Exchange) -> Response:
        """GET /api/v1/services/{service}"""
        name = exchange.parts["service"]
        for one in self._services.status():
            if one.name == name:
                return json_response(service_content(one))
        listed = ", ".join(self._services.names)
        return _refusal(
            ConsoleError(
                FailureKind.NO_SUCH_SERVICE, f"There is no service {name[:100]!r}.", f"Services: {listed}"
            )
        )

    def logs(self, exchange: Exchange) -> Coroutine[Any, Any, Response]:
        """GET /api/v1/services/{service}/logs"""
        command = Command(Verb.LOGS, exchange.parts["service"], lines=exchange.query["lines"])
        return self._execute(exchange, command)

    def cluster(self, exchange: Exchange) -> Response:
        """GET /api/v1/cluster"""
        return json_response(cluster_content(self._services))

    def health(self, exchange: Exchange) -> Response:
        """GET /health"""
        content, is_serving = health_content(self._services)
        return json_response(content, HTTPStatus.OK if is_serving else HTTPStatus.SERVICE_UNAVAILABLE)

    def metrics(self, exchange: Exchange) -> Response:
        """GET /metrics"""
        return Response(HTTPStatus.OK, metrics_text(self._services).encode(), CONTENT_TYPE)

    # -- changes

    def change(self, verb: Verb, exchange: Exchange) -> Coroutine[Any, Any, Response]:
        """POST /api/v1/services/{service}/start, stop, restart, kill"""
        return self._execute(exchange, Command(verb, exchange.parts["service"]))

    def restart_all(self, exchange: Exchange) -> Coroutine[Any, Any, Response]:
        """POST /api/v1/restart"""
        return self._execute(exchange, Command(Verb.RESTART_ALL))

    async def run_line(self, exchange: Exchange) -> Response:
        """POST /api/v1/console"""
        line = read_object(exchange.request.body, ("command",)).get("command")
        if not isinstance(line, str):
            raise InvalidRequest('the body needs a string "command", such as {"command": "status"}')
        try:
            command = parse_command(line)
            result = await self._console.execute(command, is_trusted=self._is_trusted(exchange))
        except ConsoleError as error:
            return _refusal(error)
        return json_response(_line_content(command, result))


def _line_content(command: Command, result: CommandResult) -> dict[str, Any]:
    return {
        "exit_status": result.exit_status,
        "text": result.as_text(),
        "json": command.as_json,
        "leaves": result.leaves,
        "content": result.content,
    }


def _refusal(error: ConsoleError) -> Response:
    status = HTTPStatus(error.failure.http_status)
    headers = (
        [("WWW-Authenticate", 'Bearer realm="penstock"')] if error.failure is FailureKind.NO_TOKEN else []
    )
    return problem(status, error.failure.code, error.message, error.remedy, headers)


def api_routes(handlers: ApiHandlers) -> tuple[Route, ...]:
    """The table."""
    api = "/api/v1"
    one = f"{api}/services/{{service}}"

    def shows(verb: Verb) -> Handler:
        return partial(handlers.show, verb)

    def changes(verb: Verb) -> Handler:
        return partial(handlers.change, verb)

    return (
        Route("GET", f"{api}/status", "status", "All services.", shows(Verb.STATUS), {200: None}),
        Route("GET", f"{api}/leaders", "leaders", "Partitions by leader.", shows(Verb.LEADERS), {200: None}),
        Route("GET", f"{api}/topics", "topics", "Topics and their health.", shows(Verb.TOPICS), {200: None}),
        Route("GET", f"{api}/lag", "lag", "Lag of groups.", shows(Verb.LAG), {200: None}),
        Route("GET", f"{api}/cluster", "cluster", "Where the brokers are.", handlers.cluster, {200: None}),
        Route("GET", one, "service", "One service.", handlers.service, {200: None}),
        Route("GET", f"{one}/logs", "logs", "The end of a log.", handlers.logs, {200: None}, query=(_LINES,)),
        *(
            Route("POST", f"{one}/{verb.value}", verb.value, f"{verb.value} a service.", changes(verb), {200: None})
            for verb in _CHANGES
        ),
        Route("POST", f"{api}/restart", "restart_all", "Restart all.", handlers.restart_all, {200: None}),
        Route("POST", f"{api}/console", "console", "Run a line.", handlers.run_line, {200: None}, body="Line"),
        Route("GET", "/health", "health", "Whether all services serve.", handlers.health, {200: None}),
        Route("GET", "/metrics", "metrics", "Metrics for Prometheus.", handlers.metrics, {200: None}),
    )  # fmt: skip


class CoordinatorApi(HttpDispatch):
    """The dialect of the API's port."""

    name = "api"
    server = "coordinator"
    paths_advice = "See docs/coordinator.md for the paths; GET /api/v1/status lists the services."
    hosts_advice = "Use the coordinator's IP address or localhost."
    origins_advice = "Call the API from a program, or from a page that the coordinator itself serves."

    async def stop(self) -> None:
        """Cancel the commands that run."""
        await self._tasks.stop()


@asynccontextmanager
async def http_api(
    services: Services,
    address: Address = API_ADDRESS,
    *,
    token: str | None,
    console: Console | None = None,
) -> AsyncIterator[Address]:
    """Serve the HTTP API; yields the address that it listens on. With `token` None, no client needs one.

    Raises OSError if it cannot listen there.
    """
    settings = Settings(
        host=address.host,
        connections_max=API_CONNECTIONS_MAX,
        connections_per_address_max=API_CONNECTIONS_MAX,
        frame_bytes_max=BODY_BYTES_MAX,
        frame_ms_max=30_000,
        idle_ms_max=120_000,
        inflight_bytes_max=16 << 20,
        requests_in_flight_max=16,
        response_queue_bytes_max=4 << 20,
        drain_ms_max=500,
    )
    gate = Gate(settings)
    handlers = ApiHandlers(console or Console(services), token)
    door = CoordinatorApi(ApiGround(), gate, settings, api_routes(handlers))
    listener = Listener(gate, address, lambda: door)
    bound = await listener.open()
    await listener.serve()
    gate.watch()
    try:
        yield bound
    finally:
        listener.close()
        await door.stop()
        await gate.drain()
