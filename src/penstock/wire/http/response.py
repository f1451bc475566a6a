"""Encodes responses: status line, headers, body."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple

from penstock.wire.json.rows import encode_listing

JSON = "application/json"
PROBLEM = "application/problem+json"

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class Response(NamedTuple):
    """One response, independent of the connection's state."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Sequence[tuple[str, str]] = ()
    pieces: Sequence[bytes] = ()
    """A long body in chunks, instead of `body`; not copied."""


def json_bytes(value: Any) -> bytes:
    """Compact JSON. Lone surrogates, which UTF-8 cannot encode, are escaped."""
    try:
        return _encode_json(value).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def json_response(value: Any, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> Response:
    return Response(status, json_bytes(value), JSON, headers)


def json_rows(
    head: Mapping[str, Any], name: str, rows: Iterable[Any], tail: Mapping[str, Any] | None = None
) -> Generator[int, None, Response]:
    """An object with a long list, encoded in slices."""
    content = yield from encode_listing(head, name, rows, json_bytes, tail)
    return Response(HTTPStatus.OK, content)


@lru_cache(maxsize=2)
def _date(unix_s: int) -> str:
    """Cached: many responses share the same second."""
    return formatdate(unix_s, usegmt=True)


def encode_http_response(
    response: Response, *, unix_s: float, keeps_alive: bool, is_head: bool = False, is_old: bool = False
) -> bytes:
    """The encoded response, or only its head if the body is in pieces. A response to HEAD has the body's length but
    omits it. JSON ends with a line break, so that a shell prompt starts on its own line."""
    status = response.status
    end = b"\n" if response.body and response.content_type in (JSON, PROBLEM) else b""
    length = len(response.body) + len(end) + sum(map(len, response.pieces))
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Date: {_date(int(unix_s))}",
    ]
    if status not in (101, 204):
        lines += [
            f"Content-Type: {response.content_type}",
            f"Content-Length: {length}",
        ]
    lines += [f"{name}: {value}" for name, value in response.headers]
    if not keeps_alive:
        lines.append("Connection: close")
    elif is_old:
        lines.append("Connection: keep-alive")
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    return head if is_head else b"".join((head, response.body, end))
