"""Client side of HTTP/1.1: encodes requests and parses responses incrementally. One response at a time, no pipelining.

httptools parses the grammar; this module limits how much of a body is buffered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httptools

from penstock.core.errors import Malformed, TooLarge


def encode_post(target: str, host: str, headers: Sequence[tuple[str, str]], body: bytes) -> bytes:
    """A POST request with a JSON body."""
    lines = [
        f"POST {target} HTTP/1.1",
        f"Host: {host}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers),
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


class ResponseReader:
    """Parses one response. `take` returns the body bytes that arrived since the last call."""

    def __init__(self, body_bytes_max: int) -> None:
        self._body_bytes_max = body_bytes_max
        self._parser: Any = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._body_bytes = 0
        self.status = 0
        """The status code; 0 until the head is complete."""
        self.is_complete = False
        self.keeps_alive = False
        """Whether the connection can serve another request after this response."""

    def feed(self, content: bytes) -> None:
        """Raises Malformed if this is not HTTP, TooLarge if more body is buffered than allowed."""
        if self.is_complete:
            raise Malformed("the server sent more than one response")
        try:
            self._parser.feed_data(content)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise Malformed(f"the response is not HTTP/1.1: {error}") from None
        if self._body_bytes > self._body_bytes_max:
            raise TooLarge(f"the response is over the limit of {self._body_bytes_max} bytes")

    def take(self) -> bytes:
        body = b"".join(self._body)
        self._body.clear()
        self._body_bytes = 0
        return body

    # -- httptools calls

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self.keeps_alive = self._parser.should_keep_alive()

    def on_body(self, part: bytes) -> None:
        self._body.append(part)
        self._body_bytes += len(part)

    def on_message_complete(self) -> None:
        self.is_complete = True
