"""The JSON door, by hand."""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from typing import Any, ClassVar

from contract.callers.caller import Caller, Kept, Message, Refused


class JsonCaller(Caller):
    door = "json"
    words: ClassVar[dict[str, str]] = {
        "unknown topic": "UNKNOWN_TOPIC",
        "out of range": "OFFSET_OUT_OF_RANGE",
        "too large": "TOO_LARGE",
        "frame too large": "TOO_LARGE",
        "malformed": "MALFORMED",
    }

    def publish(self, topic: str, message: Message) -> int:
        said = {"message": message.value, "key": message.key}
        headers = [{"name": name, **_said("value", value)} for name, value in message.headers]
        fields = {name: text for one in said.items() for name, text in _said(*one).items()}
        if message.key is None:
            del fields["key"]
        answer = self.ask(command="PRODUCE", topic=topic, partition=0, headers=headers, **fields)
        return int(answer["offset"])

    def read(self, topic: str, offset: int) -> Kept:
        (found,) = self.ask(command="CONSUME", topic=topic, offset=offset, max=1)["messages"]
        headers = tuple((one["name"], _heard("value", one)) for one in found.get("headers", ()))
        return Kept(found["offset"], Message(_heard("message", found), _heard("key", found), headers))

    def request(self, topic: str) -> bytes:
        return _frame({"command": "CONSUME", "topic": topic})

    def half(self, topic: str) -> bytes:
        return self.request(topic)[:-1]

    def malformed(self) -> bytes:
        return struct.pack(">I", 4) + b"JSON"

    def announced(self, topic: str, size_bytes: int) -> bytes:
        return struct.pack(">I", size_bytes)

    def last_word(self, said: bytes) -> str:
        return str(json.loads(said[4:])["error"])

    def ask(self, **request: Any) -> Any:
        self.send(_frame(request))
        (size,) = struct.unpack(">I", self.exactly(4))
        answer = json.loads(self.exactly(size))
        if not answer["ok"]:
            raise Refused(answer["error"])
        return answer


def _frame(request: dict[str, Any]) -> bytes:
    body = json.dumps(request).encode()
    return struct.pack(">I", len(body)) + body


def _said(name: str, content: bytes | None) -> dict[str, str | None]:
    return {name: None} if content is None else {f"{name}_base64": b64encode(content).decode()}


def _heard(name: str, found: dict[str, Any]) -> bytes | None:
    if f"{name}_base64" in found:
        return b64decode(found[f"{name}_base64"])
    text = found.get(name)
    return None if text is None else str(text).encode()
