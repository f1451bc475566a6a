"""A client of the HTTP door in one process with it: raw bytes in, answers out, no socket. Never a mock of the door."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

from in_process_client import TURNS_MAX, Line, receive
from manual_ports import turns
from penstock.apps.doorways import Doorways

JSON = "application/json"


class Answer(NamedTuple):
    """One answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def request(method: str, target: str, body: Any = None, **headers: str) -> bytes:
    """A request; a body that is not bytes goes as JSON. `content_type="…"` is the header Content-Type."""
    fields = {"host": "localhost"} | {name.replace("_", "-"): value for name, value in headers.items()}
    content = b""
    if body is not None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"content-type": JSON, "content-length": str(len(content))} | fields
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + content


class HttpClient:
    """One connection."""

    def __init__(self, doors: Doorways) -> None:
        self.connection = doors.listeners["http"].connect()
        self.line = Line(self.connection)
        self.connection.connection_made(self.line)  # type: ignore[arg-type]

    def feed(self, content: bytes) -> None:
        receive(self.connection, self.line, content)

    def take(self, is_head: bool = False) -> Answer | None:
        """The next answer, if it is there as a whole."""
        head, found, rest = bytes(self.line.sent).partition(b"\r\n\r\n")
        if not found:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = 0 if is_head else int(headers.get("content-length", 0))
        if len(rest) < length:
            return None
        del self.line.sent[: len(head) + 4 + length]
        return Answer(int(first.split()[1]), headers, rest[:length])

    async def answer(self, is_head: bool = False) -> Answer:
        for _ in range(TURNS_MAX):
            answer = self.take(is_head)
            if answer is not None:
                return answer
            await asyncio.sleep(0)
        raise AssertionError("no answer came")

    async def ask(self, method: str, target: str, body: Any = None, **headers: str) -> Answer:
        self.feed(request(method, target, body, **headers))
        return await self.answer(is_head=method == "HEAD")

    async def hang_up(self) -> None:
        self.line.close()
        await turns()
