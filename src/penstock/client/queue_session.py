"""One client's side of the queue protocol, without I/O: requests out, answers matched, messages in, what is held.

Bytes come from and go to whoever owns the socket, threads or not. One session lives as long as one connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.client.errors import (
    AlreadyThere,
    BadArgument,
    ClientError,
    NotFound,
    OffsetOutOfRange,
    Refused,
    TimedOut,
    Unreachable,
)
from penstock.core.errors import BrokerError
from penstock.core.model import Header
from penstock.wire.queue.frames import NO_SEQUENCE, Frame, FrameStream, MessageType, encode
from penstock.wire.queue.properties import BROKERS_OWN, NULL_BODY, Properties, headers_in, key_in
from penstock.wire.queue.words import (
    CODE,
    DELIVERY,
    ERROR,
    FAILURE,
    OUTCOME,
    PARTITION,
    REASON,
    REQUEST,
    RETRIABLE,
    STATUS,
    SUBSCRIPTION,
    TOPIC,
    TRUE,
)

FRAME_BYTES_MAX = 256 << 20
"""A frame that says it is longer is no frame."""

REASON_CHARS_MAX = 500

_ERRORS: Mapping[str, type[ClientError]] = {
    "UNKNOWN_TOPIC": NotFound,
    "UNKNOWN_SUBSCRIPTION": NotFound,
    "ALREADY_EXISTS": AlreadyThere,
    "OFFSET_OUT_OF_RANGE": OffsetOutOfRange,
    "TIMED_OUT": TimedOut,
}


@dataclass(frozen=True, slots=True)
class Message:
    """A message as its handler gets it."""

    subscription: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    body: bytes
    headers: tuple[Header, ...]
    delivery: int
    """How often it was delivered, this time included."""
    is_null: bool = False
    """It has no value at all, which is more than an empty one: a compacted topic forgets the key."""

    @property
    def properties(self) -> dict[str, str]:
        """The headers as text; of those with the same name the last."""
        return {name: (value or b"").decode(errors="replace") for name, value in self.headers}

    @property
    def text(self) -> str:
        return self.body.decode()


class HeldMessage(NamedTuple):
    """A message by its place: what is acknowledged."""

    subscription: str
    partition: int
    offset: int


class Answer(NamedTuple):
    """The broker's answer to a request."""

    sequence: int
    words: Mapping[str, str]
    body: bytes


Answered = Callable[[Answer | ClientError], None]


def error_in(words: Mapping[str, str]) -> ClientError | None:
    """The error that an answer tells of."""
    if words.get(STATUS) != FAILURE:
        return None
    code = words.get(CODE, "")
    kind = _ERRORS.get(code, Refused)
    return kind(words.get(ERROR, code), retriable=words.get(RETRIABLE) == TRUE, code=code)


class QueueSession:
    """Feed it bytes; it calls back. Never blocks, keeps no time but the one that it is told."""

    def __init__(
        self,
        deliver: Callable[[Message], None],
        end: Callable[[str, ClientError], None],
        refuse: Callable[[HeldMessage, ClientError], None],
    ) -> None:
        self._deliver = deliver
        self._end = end
        self._refuse = refuse
        self._stream = FrameStream(FRAME_BYTES_MAX)
        self._waiting: dict[str, Answered] = {}
        self._requests = 0
        self.held: dict[HeldMessage, float] = {}
        """What the handlers have not settled yet, and when the broker last knew that it is being worked on."""

    # -- out

    def request(
        self,
        kind: MessageType,
        words: Iterable[tuple[str, str]],
        answered: Answered,
        *,
        body: bytes = b"",
        timestamp_ms: int = 0,
    ) -> bytes:
        """The bytes of a request; `answered` is called once. Raises BadArgument for what cannot be said."""
        self._requests += 1
        mark = str(self._requests)
        try:
            raw = encode(Frame(kind, NO_SEQUENCE, timestamp_ms, (*words, (REQUEST, mark)), body))
        except BrokerError as error:
            raise BadArgument(str(error)) from None
        self._waiting[mark] = answered
        return raw

    def settle(self, held: HeldMessage, outcome: str, reason: str = "") -> bytes | None:
        """The bytes that say what became of a message; None when it is not held on this connection."""
        if self.held.pop(held, None) is None:
            return None
        return _acknowledgement(held, outcome, reason)

    def forget(self, subscription: str) -> None:
        """The subscription is left: what it delivered is for others."""
        for held in [held for held in self.held if held.subscription == subscription]:
            del self.held[held]

    def renew(self, now_s: float, age_s: float) -> bytes:
        """The bytes that ask for more time for everything that has been held for so long."""
        due = [held for held, since_s in self.held.items() if now_s - since_s >= age_s]
        for held in due:
            self.held[held] = now_s
        return b"".join(_acknowledgement(held, "renew", "") for held in due)

    def heartbeat(self) -> bytes:
        return encode(Frame(MessageType.HEARTBEAT))

    # -- in

    def feed(self, content: bytes, now_s: float) -> None:
        """Bytes have come. Raises Unreachable when they are not what a queue door says."""
        try:
            for frame in self._stream.feed(content):
                self._take(frame, now_s)
        except (BrokerError, KeyError, ValueError) as error:
            raise Unreachable(f"whoever answers there does not speak the queue protocol: {error}") from None

    def lose(self, error: ClientError) -> None:
        """The connection is gone: nobody is answered any more, nothing is held."""
        waiting, self._waiting = self._waiting, {}
        self.held.clear()
        for answered in waiting.values():
            answered(error)

    def _take(self, frame: Frame, now_s: float) -> None:
        if frame.type is MessageType.DATA:
            message = _message(frame)
            self.held[HeldMessage(message.subscription, message.partition, message.offset)] = now_s
            self._deliver(message)
        else:
            self._take_answer(frame)

    def _take_answer(self, frame: Frame) -> None:
        words = dict(frame.properties)
        error = error_in(words)
        answered = self._waiting.pop(words.get(REQUEST, ""), None)
        if answered is not None:
            answered(error or Answer(frame.sequence, words, frame.body))
        elif error is not None and frame.sequence != NO_SEQUENCE and SUBSCRIPTION in words:
            self._refuse(
                HeldMessage(words[SUBSCRIPTION], int(words.get(PARTITION, "0")), frame.sequence), error
            )
        elif error is not None and SUBSCRIPTION in words:
            self._end(words[SUBSCRIPTION], error)
        elif error is not None:
            raise Unreachable(f"the broker ends the connection: {error.message}")


def _acknowledgement(held: HeldMessage, outcome: str, reason: str) -> bytes:
    words = [(SUBSCRIPTION, held.subscription), (PARTITION, str(held.partition))]
    if outcome != "accept":
        words.append((OUTCOME, outcome))
    if reason:
        words.append(
            (REASON, reason.replace("\0", "\\0")[:REASON_CHARS_MAX].encode(errors="replace").decode())
        )
    return encode(Frame(MessageType.ACK, held.offset, 0, tuple(words)))


def _message(frame: Frame) -> Message:
    own: dict[str, str] = {name: value for name, value in frame.properties if name.startswith(BROKERS_OWN)}
    return Message(
        subscription=own[SUBSCRIPTION],
        topic=own[TOPIC],
        partition=int(own[PARTITION]),
        offset=frame.sequence,
        timestamp_ms=frame.timestamp_ms,
        key=key_in(frame.properties),
        body=frame.body,
        headers=headers_in(frame.properties),
        delivery=int(own[DELIVERY]),
        is_null=own.get(NULL_BODY) == TRUE,
    )


def message_properties(properties: Mapping[str, object]) -> Properties:
    """What a publisher gives a message along, as text. Names that speak to the broker are not for publishers."""
    for name in properties:
        if name.startswith(BROKERS_OWN):
            raise BadArgument(f"the property {name!r} starts with {BROKERS_OWN!r}, which is the broker's own")
    return tuple((name, str(value)) for name, value in properties.items())
