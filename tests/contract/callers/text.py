"""The text door, by hand."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import quote_from_bytes, unquote_to_bytes

from contract.callers.caller import Caller, Kept, Message, Refused

END = b"\r\n"


class TextCaller(Caller):
    door = "text"
    words: ClassVar[dict[str, str]] = {
        "unknown topic": "unknown-topic",
        "out of range": "offset-out-of-range",
        "too large": "too-large",
        "frame too large": "too-large",
        "malformed": "malformed",
    }

    def publish(self, topic: str, message: Message) -> int:
        extras = ["partition=0"]
        if message.key is not None:
            extras.append(f"key={quote_from_bytes(message.key, '')}")
        if message.value is None:
            extras.append("value=none")
        extras += [f"header.{_pair(name, value)}" for name, value in message.headers]
        value = message.value or b""
        self.send(f"PUB {topic} {len(value)} {' '.join(extras)}".encode() + END + value)
        return int(self._answer()[1])

    def read(self, topic: str, offset: int) -> Kept:
        self.send(f"FETCH {topic} {offset} form=full".encode() + END)
        _, found, size, *extras = self._answer()
        value: bytes | None = self.exactly(int(size) + len(END))[: -len(END)]
        key: bytes | None = None
        headers: list[tuple[str, bytes | None]] = []
        for name, equals, text in (one.partition("=") for one in extras):
            if name == "key":
                key = unquote_to_bytes(text)
            elif name == "value":
                value = None
            elif name.startswith("header."):
                header = unquote_to_bytes(name.removeprefix("header.")).decode()
                headers.append((header, unquote_to_bytes(text) if equals else None))
        return Kept(int(found), Message(value, key, tuple(headers)))

    def request(self, topic: str) -> bytes:
        return f"FETCH {topic} 0".encode() + END

    def half(self, topic: str) -> bytes:
        return self.announced(topic, 10) + b"half"

    def malformed(self) -> bytes:
        return b"PUB orders many" + END

    def announced(self, topic: str, size_bytes: int) -> bytes:
        return f"PUB {topic} {size_bytes}".encode() + END

    def last_word(self, said: bytes) -> str:
        return said.split()[1].decode()

    def _answer(self) -> list[str]:
        answer = self.until(END).decode().split(" ")
        if answer[0] == "ERR":
            raise Refused(answer[1])
        return answer


def _pair(name: str, value: bytes | None) -> str:
    quoted = quote_from_bytes(name.encode(), "")
    return quoted if value is None else f"{quoted}={quote_from_bytes(value, '')}"
