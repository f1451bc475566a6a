"""The HTTP door, by hand over one connection that is kept alive."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any, ClassVar
from urllib.parse import quote

from contract.callers.caller import Caller, Kept, Message, Refused

API = "/api/v1"
HEAD_END = b"\r\n\r\n"


class HttpCaller(Caller):
    door = "http"
    words: ClassVar[dict[str, str]] = {
        "unknown topic": "404 UnknownTopic",
        "out of range": "416 OffsetOutOfRange",
        "too large": "413 TooLarge",
        "frame too large": "413 TooLarge",
        "malformed": "400 Malformed",
    }

    def publish(self, topic: str, message: Message) -> int:
        body: dict[str, Any] = {"topic": topic, "partition": 0, "headers": _headers_out(message)}
        for name, content in (("key", message.key), ("value", message.value)):
            if content is None:
                body[name] = None
            else:
                body[f"{name}_base64"] = b64encode(content).decode()
        return int(self.ask("POST", f"{API}/messages", json.dumps(body).encode())["offset"])

    def read(self, topic: str, offset: int) -> Kept:
        where = f"{API}/topics/{quote(topic)}/partitions/0/messages"
        (found,) = self.ask("GET", f"{where}?offset={offset}&max=1&values=base64")["messages"]
        headers = tuple(
            (name, _header_in(one))
            for name, value in found["headers"].items()
            for one in (value if isinstance(value, list) else [value])
        )
        return Kept(found["offset"], Message(_content(found, "value"), _content(found, "key"), headers))

    def request(self, topic: str) -> bytes:
        return _encoded("GET", f"{API}/topics/{quote(topic)}/partitions/0/messages?offset=0", b"")

    def half(self, topic: str) -> bytes:
        return self.announced(topic, 100) + b'{"topic"'

    def malformed(self) -> bytes:
        return b"this is not HTTP" + HEAD_END

    def announced(self, topic: str, size_bytes: int) -> bytes:
        return _head("POST", f"{API}/messages", size_bytes)

    def last_word(self, said: bytes) -> str:
        head, _, body = said.partition(HEAD_END)
        return _word(head, json.loads(body))

    def ask(self, method: str, target: str, body: bytes = b"") -> Any:
        self.send(_encoded(method, target, body))
        head = self.until(HEAD_END)
        fields = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:])
        answer = json.loads(self.exactly(int(fields["content-length"])))
        if not head.split()[1].startswith(b"2"):
            raise Refused(_word(head, answer))
        return answer


def _word(head: bytes, problem: dict[str, Any]) -> str:
    return f"{head.split()[1].decode()} {problem['code']}"


def _head(method: str, target: str, length: int) -> bytes:
    fields = f"host: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}"
    return f"{method} {target} HTTP/1.1\r\n{fields}".encode() + HEAD_END


def _encoded(method: str, target: str, body: bytes) -> bytes:
    return _head(method, target, len(body)) + body


def _headers_out(message: Message) -> dict[str, list[Any]]:
    headers: dict[str, list[Any]] = {}
    for name, value in message.headers:
        one = None if value is None else {"base64": b64encode(value).decode()}
        headers.setdefault(name, []).append(one)
    return headers


def _header_in(value: Any) -> bytes | None:
    if isinstance(value, dict):
        return b64decode(value["base64"])
    return None if value is None else str(value).encode()


def _content(found: dict[str, Any], name: str) -> bytes | None:
    return b64decode(found[f"{name}_base64"]) if f"{name}_base64" in found else None
