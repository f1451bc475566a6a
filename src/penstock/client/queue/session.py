"""Client side of the queue protocol, without I/O: pending requests, incoming messages and the messages held.

The owner of the socket passes bytes in and sends the bytes returned. One session per connection.
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
from penstock.wire.queue.request_properties import (
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
"""A larger frame size means that the peer does not speak the queue protocol."""

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
    """A message as delivered to its handler."""

    subscription: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    body: bytes
    headers: tuple[Header, ...]
    delivery: int
    """Number of deliveries so far, including this one."""
    is_null: bool = False
    """Whether the value is null (a tombstone) rather than empty: compaction then removes the key."""

    @property
    def properties(self) -> dict[str, str]:
        """The headers as text; the last one wins where a name repeats."""
        return {name: (value or b"").decode(errors="replace") for name, value in self.headers}

    @property
    def text(self) -> str:
        return self.body.decode()


class HeldMessage(NamedTuple):
    """Identifies a message that this client holds and must settle."""

    subscription: str
    partition: int
    offset: int


class QueueResponse(NamedTuple):
    """The broker's response to a request."""

    sequence: int
    properties: Mapping[str, str]
    body: bytes


OnResponse = Callable[[QueueResponse | ClientError], None]


def error_in(properties: Mapping[str, str]) -> ClientError | None:
    """The error reported by a response, if any."""
    if properties.get(STATUS) != FAILURE:
        return None
    code = properties.get(CODE, "")
    kind = _ERRORS.get(code, Refused)
    return kind(properties.get(ERROR, code), retriable=properties.get(RETRIABLE) == TRUE, code=code)


class QueueSession:
    """Parses bytes and calls back. Never blocks; the current time is an argument."""

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
        self._pending: dict[str, OnResponse] = {}
        self._requests = 0
        self.held: dict[HeldMessage, float] = {}
        """Messages not settled yet, with the time of delivery or of the last renewal."""

    # -- out

    def request(
        self,
        kind: MessageType,
        properties: Iterable[tuple[str, str]],
        on_response: OnResponse,
        *,
        body: bytes = b"",
        timestamp_ms: int = 0,
    ) -> bytes:
        """Encode a request; `on_response` is called once. Raises BadArgument for properties that cannot be encoded."""
        self._requests += 1
        request_id = str(self._requests)
        try:
            raw = encode(Frame(kind, NO_SEQUENCE, timestamp_ms, (*properties, (REQUEST, request_id)), body))
        except BrokerError as error:
            raise BadArgument(str(error)) from None
        self._pending[request_id] = on_response
        return raw

    def settle(self, held: HeldMessage, outcome: str, reason: str = "") -> bytes | None:
        """Encode the outcome of a message; None if the message is not held on this connection."""
        if self.held.pop(held, None) is None:
            return None
        return _acknowledgement(held, outcome, reason)

    def forget(self, subscription: str) -> None:
        """Drop the held messages of a subscription that the client has left."""
        for held in [held for held in self.held if held.subscription == subscription]:
            del self.held[held]

    def renew(self, now_s: float, age_s: float) -> bytes:
        """Encode renewals for all messages held for at least `age_s`."""
        due = [held for held, since_s in self.held.items() if now_s - since_s >= age_s]
        for held in due:
            self.held[held] = now_s
        return b"".join(_acknowledgement(held, "renew", "") for held in due)

    def heartbeat(self) -> bytes:
        return encode(Frame(MessageType.HEARTBEAT))

    # -- in

    def feed(self, content: bytes, now_s: float) -> None:
        """Process received bytes. Raises Unreachable if they are not valid queue frames."""
        try:
            for frame in self._stream.feed(content):
                self._take(frame, now_s)
        except (BrokerError, KeyError, ValueError) as error:
            raise Unreachable(f"the peer does not speak the queue protocol: {error}") from None

    def lose(self, error: ClientError) -> None:
        """Fail all pending requests and drop all held messages: the connection is lost."""
        pending, self._pending = self._pending, {}
        self.held.clear()
        for on_response in pending.values():
            on_response(error)

    def _take(self, frame: Frame, now_s: float) -> None:
        if frame.type is MessageType.DATA:
            message = _message(frame)
            self.held[HeldMessage(message.subscription, message.partition, message.offset)] = now_s
            self._deliver(message)
        else:
            self._take_response(frame)

    def _take_response(self, frame: Frame) -> None:
        properties = dict(frame.properties)
        error = error_in(properties)
        on_response = self._pending.pop(properties.get(REQUEST, ""), None)
        if on_response is not None:
            on_response(error or QueueResponse(frame.sequence, properties, frame.body))
        elif error is not None and frame.sequence != NO_SEQUENCE and SUBSCRIPTION in properties:
            self._refuse(
                HeldMessage(properties[SUBSCRIPTION], int(properties.get(PARTITION, "0")), frame.sequence),
                error,
            )
        elif error is not None and SUBSCRIPTION in properties:
            self.forget(properties[SUBSCRIPTION])
            self._end(properties[SUBSCRIPTION], error)
        elif error is not None:
            raise Unreachable(f"the broker closed the connection: {error.message}")


def _acknowledgement(held: HeldMessage, outcome: str, reason: str) -> bytes:
    properties = [(SUBSCRIPTION, held.subscription), (PARTITION, str(held.partition))]
    if outcome != "accept":
        properties.append((OUTCOME, outcome))
    if reason:
        properties.append(
            (REASON, reason.replace("\0", "\\0")[:REASON_CHARS_MAX].encode(errors="replace").decode())
        )
    return encode(Frame(MessageType.ACK, held.offset, 0, tuple(properties)))


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
    """Message properties as text. Raises BadArgument for names with the broker's reserved prefix."""
    for name in properties:
        if name.startswith(BROKERS_OWN):
            raise BadArgument(
                f"invalid property {name!r}: the prefix {BROKERS_OWN!r} is reserved for the broker"
            )
    return tuple((name, str(value)) for name, value in properties.items())
