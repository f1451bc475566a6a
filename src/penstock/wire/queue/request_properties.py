"""The protocol properties of the queue door's requests and responses, and their validation. No I/O.

The arguments of a request are properties that start with `@`. Unknown ones are rejected, never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from penstock.core.errors import InvalidRequest
from penstock.wire.queue.frames import Frame, MessageType
from penstock.wire.queue.properties import (
    BROKERS_OWN,
    HEADER,
    KEY,
    KEY_BASE64,
    NULL_BODY,
    Properties,
)

CLIENT, REQUEST = "@client", "@request"
TOPIC, PARTITION, PARTITIONS = "@topic", "@partition", "@partitions"
SUBSCRIPTION, START_OFFSET, HOLD_MS, DELIVERIES_MAX = (
    "@subscription",
    "@start_offset",
    "@hold_ms",
    "@max_deliveries",
)
WINDOW, HEARTBEAT_MS = "@window", "@heartbeat_ms"
OUTCOME, REASON = "@outcome", "@reason"
COUNT, DELIVERY, EXISTED = "@count", "@delivery", "@existed"
PRINCIPAL, ADDRESS, MISSING = "@principal", "@address", "@missing"
STATUS, CODE, ERROR, RETRIABLE = "@status", "@code", "@error", "@retriable"

SUCCESS, FAILURE = "success", "error"
TRUE, FALSE = "true", "false"

_CACHED_PROPERTIES_MAX = 8
_CACHED_CHARS_MAX = 256

_ALWAYS = frozenset({CLIENT, REQUEST})
KNOWN: Mapping[MessageType, frozenset[str]] = {
    MessageType.CREATE_TOPIC: _ALWAYS | {TOPIC, PARTITIONS},
    MessageType.PUBLISH: _ALWAYS | {TOPIC, PARTITION, KEY, KEY_BASE64, NULL_BODY, HEADER},
    MessageType.CREATE_SUBSCRIPTION: _ALWAYS | {SUBSCRIPTION, TOPIC, START_OFFSET, HOLD_MS, DELIVERIES_MAX},
    MessageType.DELETE_SUBSCRIPTION: _ALWAYS | {SUBSCRIPTION},
    MessageType.SUBSCRIBE: _ALWAYS | {SUBSCRIPTION, WINDOW},
    MessageType.UNSUBSCRIBE: _ALWAYS | {SUBSCRIPTION},
    MessageType.HEARTBEAT: _ALWAYS,
    MessageType.ACK: _ALWAYS | {SUBSCRIPTION, PARTITION, OUTCOME, REASON},
    MessageType.LIST_SUBSCRIPTIONS: _ALWAYS,
    MessageType.DESCRIBE_SUBSCRIPTION: _ALWAYS | {SUBSCRIPTION},
    MessageType.REDRIVE: _ALWAYS | {SUBSCRIPTION, COUNT},
}
"""The properties that each request of a client accepts. DATA is missing: only the broker sends it."""

_KNOWN_BETWEEN_BROKERS: Mapping[MessageType, frozenset[str]] = {
    MessageType.LINK: _ALWAYS | {PRINCIPAL, ADDRESS},
    MessageType.LOST: frozenset(),
}

_WITH_BODY = frozenset({MessageType.PUBLISH, MessageType.LINK})


class RequestProperties(NamedTuple):
    """The protocol properties of one request."""

    kind: MessageType
    values: Mapping[str, str]

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if not value:
            raise InvalidRequest(f"{self.kind.name} needs {name}")
        return value

    def number(self, name: str) -> int | None:
        """A number, or None if absent."""
        value = self.values.get(name)
        if value is None:
            return None
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
            raise InvalidRequest(f"{self.kind.name}: {name} must be an integer, not {value!r}")
        return int(value)

    def flag(self, name: str) -> bool:
        value = self.values.get(name, FALSE)
        if value not in (TRUE, FALSE):
            raise InvalidRequest(f"{self.kind.name}: {name} must be {TRUE} or {FALSE}, not {value!r}")
        return value == TRUE


def read_request_properties(frame: Frame) -> RequestProperties:
    """Read and validate a request's properties. Raises InvalidRequest for unknown ones."""
    if frame.type not in _WITH_BODY and frame.body:
        raise InvalidRequest(f"{frame.type.name} takes no body, got {len(frame.body)} bytes")
    properties = frame.properties
    if len(properties) <= _CACHED_PROPERTIES_MAX and sum(map(_chars, properties)) <= _CACHED_CHARS_MAX:
        return _cached_read(frame.type, properties)
    return _read(frame.type, properties)


def _chars(one: tuple[str, str]) -> int:
    return len(one[0]) + len(one[1])


def _read(kind: MessageType, properties: Properties) -> RequestProperties:
    known = KNOWN.get(kind, _KNOWN_BETWEEN_BROKERS.get(kind))
    if known is None:
        raise InvalidRequest(f"{kind.name} is sent by the broker only")
    values: dict[str, str] = {}
    for name, value in properties:
        if name in known:
            if name in values and name != HEADER:
                raise InvalidRequest(f"{kind.name} has {name} twice")
            values[name] = value
        elif name.startswith(BROKERS_OWN) or kind is not MessageType.PUBLISH:
            raise InvalidRequest(f"{kind.name} does not accept {name}; it accepts {', '.join(sorted(known))}")
    return RequestProperties(kind, values)


_cached_read = lru_cache(1024)(_read)
"""Cached, because acknowledgements repeat. Only short ones, because clients choose the content."""
