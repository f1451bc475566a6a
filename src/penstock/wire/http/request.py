"""Parses requests incrementally, with limits on heads and bodies. Never responds.

httptools parses the grammar; this module checks sizes, version and upgrades.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

import httptools

from penstock.core.errors import BrokerError, Malformed, TooLarge
from penstock.wire.foreign_protocol import foreign_line

HEAD_BYTES_MAX = 32 << 10
"""The request line and all headers together."""

UNSEEN_BYTES_MAX = HEAD_BYTES_MAX + (1 << 18)
"""Bytes that the parser may buffer without a callback: an endless header, or chunk framing."""

CHUNK_OVERHEAD = 8
"""Overhead per body byte, if the body is sent in chunks of one byte, with a margin."""

START_BYTES = 8
"""Enough to detect a TLS handshake."""

HEADERS_MAX = 100
QUERY_FIELDS_MAX = 100


@dataclass(slots=True)
class Request:
    """One request. Header names are lower case; values of repeated headers are joined by commas."""

    method: str = ""
    target: bytes = b""
    authority: str = ""
    """The host in the request target, as sent through a proxy; usually empty."""
    path: str = ""
    query: dict[str, list[str]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_old: bool = False
    """HTTP/1.0."""
    keeps_alive: bool = True

    @property
    def has_body(self) -> bool:
        """Whether the client announced a body, even an empty one."""
        return "content-length" in self.headers or "transfer-encoding" in self.headers

    @property
    def coding(self) -> str:
        """The content coding of the body; empty for identity."""
        coding = self.headers.get("content-encoding", "").strip().lower()
        return "" if coding == "identity" else coding

    @property
    def is_websocket(self) -> bool:
        return self.headers.get("upgrade", "").lower() == "websocket"


@dataclass(frozen=True, slots=True)
class Continue:
    """The client waits for `100 Continue` before it sends the body."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A request to upgrade to WebSocket; `rest` are the bytes received after it."""

    request: Request
    rest: bytes


Event = Request | Continue | Upgrade | BrokerError
"""An error is the last event: the rest of the stream cannot be parsed."""


class RequestReader:
    """Parses the requests of one connection. `feed` returns completed events."""

    def __init__(self, body_bytes_max: int) -> None:
        self._body_bytes_max = body_bytes_max
        self._events: list[Event] = []
        self._is_over = False
        self._start()

    def _start(self) -> None:
        self._parser: Any = httptools.HttpRequestParser(self)
        self._request: Request | None = None
        self._body: list[bytes] = []
        self.body_bytes = 0
        self.is_in_head = True
        self._head_bytes = self._fed_bytes = 0

    @property
    def is_midway(self) -> bool:
        """Whether a request has begun and is not complete."""
        return self._request is not None

    def feed(self, content: bytes | memoryview) -> list[Event]:
        """Parse bytes. Data after an error, an upgrade or the client's last request is ignored."""
        if self._is_over:
            return []
        self._parse(content)
        events, self._events = self._events, []
        return events

    def _parse(self, content: bytes | memoryview) -> None:
        try:
            self._parser.feed_data(content)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgraded(bytes(content[upgrade.args[0] :]))
        except httptools.HttpParserError as error:
            if not self._is_over:
                start = bytes(content[:START_BYTES])
                self._fail(foreign_line(start) or Malformed(f"this is not HTTP: {error}"))
        if self.is_midway:
            self._fed_bytes += len(content)
            if self._fed_bytes - CHUNK_OVERHEAD * self.body_bytes > UNSEEN_BYTES_MAX:
                self._fail(TooLarge(f"the head of a request has at most {HEAD_BYTES_MAX} bytes"))

    def _fail(self, error: BrokerError) -> None:
        """Record the first error; the parser continues to the end of its input."""
        if not self._is_over:
            self._is_over = True
            self._events.append(error)

    def _upgraded(self, rest: bytes) -> None:
        """Only WebSocket upgrades are accepted; others are ignored, as HTTP allows."""
        if self._is_over:
            return
        last = self._events[-1]
        assert isinstance(last, Request)
        if last.is_websocket:
            self._events[-1] = Upgrade(last, rest)
            self._is_over = True
        elif last.has_body:
            self._events.pop()
            self._fail(Malformed("only an upgrade to websocket is supported; send the body without one"))
        else:
            self._start()
            self._parse(rest)

    # -- httptools calls

    def on_message_begin(self) -> None:
        self._request = Request()
        self._body = []
        self.body_bytes = self._head_bytes = self._fed_bytes = 0
        self.is_in_head = True

    def _grow_head(self, count: int) -> None:
        self._head_bytes += count
        if self._head_bytes > HEAD_BYTES_MAX:
            self._fail(TooLarge(f"the head of a request has at most {HEAD_BYTES_MAX} bytes"))

    def on_url(self, part: bytes) -> None:
        assert self._request is not None
        self._grow_head(len(part))
        self._request.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        request = self._request
        if request is None or self._is_over or not self.is_in_head:
            return  # trailers are ignored
        self._grow_head(len(name) + len(value) + 4)
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        before = request.headers.get(key)
        request.headers[key] = text if before is None else f"{before}, {text}"
        if len(request.headers) > HEADERS_MAX:
            self._fail(TooLarge(f"a request has at most {HEADERS_MAX} headers"))

    def on_headers_complete(self) -> None:
        request = self._request
        if request is None or self._is_over:
            return
        self.is_in_head = False
        version = self._parser.get_http_version()
        if version not in ("1.0", "1.1"):
            self._fail(Malformed(f"HTTP/{version} is not supported, use HTTP/1.1"))
            return
        request.is_old = version == "1.0"
        request.method = self._parser.get_method().decode("latin-1")
        request.keeps_alive = self._parser.should_keep_alive()
        try:
            _read_target(request)
            self._check_head(request)
        except BrokerError as error:
            self._fail(error)
            return
        if request.headers.get("expect", "").lower() == "100-continue" and not request.is_old:
            self._events.append(Continue())

    def _check_head(self, request: Request) -> None:
        if not request.is_old and "host" not in request.headers:
            raise Malformed("an HTTP/1.1 request needs a Host header")
        length = request.headers.get("content-length", "0")
        if not length.isdecimal():
            raise Malformed("Content-Length is not a number")
        if len(length) > 18 or int(length) > self._body_bytes_max:
            raise TooLarge(f"a body of {length[:20]} bytes is over the limit of {self._body_bytes_max}")

    def on_body(self, part: bytes) -> None:
        if self._is_over:
            return
        self.body_bytes += len(part)
        if self.body_bytes > self._body_bytes_max:
            self._body = []
            self._fail(TooLarge(f"the body is over the limit of  {self._body_bytes_max} bytes"))
        else:
            self._body.append(part)

    def on_message_complete(self) -> None:
        request, self._request = self._request, None
        if request is None or self._is_over:
            return
        request.body = b"".join(self._body)
        self._body = []
        self.body_bytes = 0
        self._events.append(request)
        if not request.keeps_alive:
            self._is_over = True


def _read_target(request: Request) -> None:
    """Path and query of the request target, unescaped."""
    try:
        url = httptools.parse_url(request.target)
        path = (url.path or b"/").decode("ascii")
        query = (url.query or b"").decode("ascii")
        authority = (url.host or b"").decode("ascii")
    except (httptools.HttpParserError, UnicodeDecodeError) as error:
        raise Malformed(f"the request target is not a valid URL: {error}") from None
    request.path = path
    request.authority = f"[{authority}]" if ":" in authority else authority
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS_MAX, encoding="utf-8"
        )
    except ValueError as error:
        raise Malformed(f"the query is invalid: {error}") from None
    for name, value in pairs:
        request.query.setdefault(name, []).append(value)


def segments_of(path: str) -> list[str] | None:
    """The unescaped segments of a path; None if they are not UTF-8."""
    try:
        return [unquote(part, errors="strict") for part in path.split("/")[1:]]
    except UnicodeDecodeError:
        return None
