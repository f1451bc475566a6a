"""The queue door, frame by frame. A subscription from an offset on is its way to read."""

from __future__ import annotations

import struct
import uuid
from typing import ClassVar

from contract.callers.caller import Caller, Kept, Message, Refused
from penstock.core.model import Header
from penstock.wire.queue.frames import Frame, MessageType, decode, encode
from penstock.wire.queue.properties import NULL_BODY, headers_in, key_in, properties_of

LENGTH_BYTES = 4


class QueueCaller(Caller):
    door = "queue"
    words: ClassVar[dict[str, str]] = {
        "unknown topic": "UNKNOWN_TOPIC",
        "out of range": "OFFSET_OUT_OF_RANGE",
        "too large": "TOO_LARGE",
        "frame too large": "TOO_LARGE",
        "malformed": "MALFORMED",
    }

    def publish(self, topic: str, message: Message) -> int:
        headers = [Header(name, value) for name, value in message.headers]
        own = properties_of(message.key, headers, is_null=message.value is None)
        words = (("@topic", topic), ("@partition", "0"), *own)
        return self._ask(Frame(MessageType.PUBLISH, properties=words, body=message.value or b"")).sequence

    def read(self, topic: str, offset: int) -> Kept:
        name = ("@subscription", f"contract-{uuid.uuid4().hex}")
        start = (name, ("@topic", topic), ("@start_offset", str(offset)))
        self._ask(Frame(MessageType.CREATE_SUBSCRIPTION, properties=start))
        self._ask(Frame(MessageType.SUBSCRIBE, properties=(name, ("@window", "1"))))
        data = self._frame()
        assert data.type is MessageType.DATA
        self._ask(Frame(MessageType.UNSUBSCRIBE, properties=(name,)))
        self._ask(Frame(MessageType.DELETE_SUBSCRIPTION, properties=(name,)))
        value = None if dict(data.properties).get(NULL_BODY) == "true" else data.body
        headers = tuple((one.key, one.value) for one in headers_in(data.properties))
        return Kept(data.sequence, Message(value, key_in(data.properties), headers))

    def request(self, topic: str) -> bytes:
        return encode(Frame(MessageType.LIST_SUBSCRIPTIONS))

    def half(self, topic: str) -> bytes:
        return encode(Frame(MessageType.PUBLISH, properties=(("@topic", topic),), body=b"half"))[:-1]

    def malformed(self) -> bytes:
        return struct.pack(">I", 3) + b"abc"

    def announced(self, topic: str, size_bytes: int) -> bytes:
        return struct.pack(">I", size_bytes)

    def last_word(self, said: bytes) -> str:
        return dict(decode(said).properties)["@code"]

    def _frame(self) -> Frame:
        head = self.exactly(LENGTH_BYTES)
        (size,) = struct.unpack(">I", head)
        return decode(head + self.exactly(size - LENGTH_BYTES))

    def _ask(self, request: Frame) -> Frame:
        self.send(encode(request))
        answer = self._frame()
        said = dict(answer.properties)
        if said.get("@status") != "success":
            raise Refused(said["@code"])
        return answer
