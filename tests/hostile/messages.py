"""Requests of the HTTP, JSON, text and queue doors over bare sockets, and their whole answers. Never judges one."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Sequence
from typing import Any

from hostile.harness import Harness
from penstock.wire.queue.frames import Frame, MessageType, encode

LENGTH_BYTES = 4


def http(method: str, path: str, body: bytes | None = None, *, headers: Sequence[str] = ()) -> bytes:
    """A request; its body is announced as JSON."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def json_frame(command: str, **fields: Any) -> bytes:
    return framed(json.dumps({"command": command, **fields}).encode())


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def queue_frame(kind: MessageType, *properties: tuple[str, str], body: bytes = b"") -> bytes:
    return encode(Frame(kind, 1, 0, properties, body))


class Line:
    """One connection to one door."""

    def __init__(self, harness: Harness, door: str) -> None:
        self._socket = harness.connect(getattr(harness.broker, f"{door}_port"))
        self._stream = self._socket.makefile("rb")
        self.door = door

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._socket.close()

    def send(self, content: bytes) -> None:
        self._socket.sendall(content)

    def drain(self, content: bytes) -> bytes:
        """Send all of it from a thread, end, and read until the broker ends as well."""

        def send() -> None:
            self._socket.sendall(content)
            self._socket.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        found = self._stream.read()
        sender.join()
        return found

    def ask(self, request: bytes) -> bytes:
        """Send one request; the body of its answer."""
        self.send(request)
        return self.answer()

    def answer(self) -> bytes:
        """The body of the next answer; for text all its lines."""
        match self.door:
            case "http":
                return self._http_answer()
            case "text":
                return self._text_answer()
            case "json":
                return self._exactly(int.from_bytes(self._exactly(LENGTH_BYTES), "big"))
            case _:
                length = self._exactly(LENGTH_BYTES)
                return length + self._exactly(int.from_bytes(length, "big") - LENGTH_BYTES)

    def _http_answer(self) -> bytes:
        status = self._stream.readline()
        assert status.startswith(b"HTTP/1.1 "), status
        size = 0
        while (line := self._stream.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        return status + self._exactly(size)

    def _text_answer(self) -> bytes:
        first = self._stream.readline()
        if not first.startswith(b"TOPICS"):
            return first
        return first + b"".join(self._stream.readline() for _ in range(int(first.split()[1])))

    def _exactly(self, size: int) -> bytes:
        found = self._stream.read(size)
        assert len(found) == size, f"the broker closed the connection after {found[:200]!r}"
        return found
