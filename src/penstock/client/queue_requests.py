"""What a client can ask the queue door for, as plain values: shared by the blocking and the asyncio client.

Never sends anything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from penstock.client.errors import BadArgument
from penstock.client.queue_session import Answer, message_properties
from penstock.core.model import Header
from penstock.wire.queue.frames import MessageType
from penstock.wire.queue.properties import properties_of
from penstock.wire.queue.words import (
    COUNT,
    DELIVERIES_MAX,
    EXISTED,
    HEARTBEAT_MS,
    HOLD_MS,
    PARTITION,
    PARTITIONS,
    START_OFFSET,
    SUBSCRIPTION,
    TOPIC,
    TRUE,
    WINDOW,
)

RENEWALS = 3
"""More time is asked for so many times within the time that a message may be held."""

ADDRESS_VARIABLE = "PENSTOCK_QUEUE"
ADDRESS_DEFAULT = "localhost:9999"


def queue_address(host: str | None, port: int | None) -> tuple[str, int]:
    """Where the queue door is: as said, else as the environment says, else where it is by default."""
    found = os.environ.get(ADDRESS_VARIABLE) or ADDRESS_DEFAULT
    known_host, colon, known_port = found.rpartition(":")
    if not (colon and known_host and known_port.isascii() and known_port.isdigit()):
        raise BadArgument(f"{ADDRESS_VARIABLE} is {found!r}, which is not of the form HOST:PORT")
    if port is not None and not 0 < port < 2**16:
        raise BadArgument(f"port is from 1 to 65535, not {port}")
    return host or known_host, int(known_port) if port is None else port


class Asked(NamedTuple):
    """One request before it has a connection."""

    kind: MessageType
    words: tuple[tuple[str, str], ...]
    body: bytes = b""
    timestamp_ms: int = 0


def _words(*pairs: tuple[str, object | None]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in pairs if value is not None)


def ask_create_topic(topic: str, partitions: int | None) -> Asked:
    return Asked(MessageType.CREATE_TOPIC, _words((TOPIC, topic), (PARTITIONS, partitions)))


def ask_publish(
    topic: str,
    body: bytes | None,
    *,
    key: bytes | str | None,
    partition: int | None,
    headers: Iterable[tuple[str, bytes | None]],
    properties: Mapping[str, object],
    timestamp_ms: int,
) -> Asked:
    if not isinstance(body, bytes | bytearray | memoryview | None):
        raise BadArgument(f"a body is bytes or None, not {type(body).__name__}; publish_text takes text")
    own = properties_of(
        key.encode() if isinstance(key, str) else key,
        [Header(name, value) for name, value in headers],
        is_null=body is None,
    )
    words = (*_words((TOPIC, topic), (PARTITION, partition)), *own, *message_properties(properties))
    return Asked(MessageType.PUBLISH, words, bytes(body or b""), timestamp_ms)


def ask_create_subscription(
    name: str, topic: str, start_offset: int, hold_ms: int | None, max_deliveries: int | None
) -> Asked:
    return Asked(
        MessageType.CREATE_SUBSCRIPTION,
        _words(
            (SUBSCRIPTION, name),
            (TOPIC, topic),
            (START_OFFSET, start_offset),
            (HOLD_MS, hold_ms),
            (DELIVERIES_MAX, max_deliveries),
        ),
    )


def ask_subscribe(name: str, window: int | None) -> Asked:
    return Asked(MessageType.SUBSCRIBE, _words((SUBSCRIPTION, name), (WINDOW, window)))


def ask_about(kind: MessageType, name: str) -> Asked:
    """Requests that need no more than the name of a subscription."""
    return Asked(kind, _words((SUBSCRIPTION, name)))


def ask_list() -> Asked:
    return Asked(MessageType.LIST_SUBSCRIPTIONS, ())


def ask_redrive(name: str, count: int | None) -> Asked:
    return Asked(MessageType.REDRIVE, _words((SUBSCRIPTION, name), (COUNT, count)))


# -- what answers say


def was_created(answer: Answer) -> bool:
    """Whether something is there because of this request, and was not before."""
    return answer.words.get(EXISTED) != TRUE


def count_in(answer: Answer) -> int:
    return int(answer.words[COUNT])


def listed_in(answer: Answer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(answer.body)
    return found


def described_in(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.body)
    return found


class MemberTerms(NamedTuple):
    """What a member has to keep to: how often to give a sign of life, how long it may hold a message."""

    heartbeat_s: float = 30.0
    hold_s: float = 30.0

    def joined(self, answer: Answer) -> MemberTerms:
        """The strictest of all subscriptions so far and this one."""
        return MemberTerms(
            min(self.heartbeat_s, int(answer.words[HEARTBEAT_MS]) / 1000),
            min(self.hold_s, int(answer.words[HOLD_MS]) / 1000),
        )

    @property
    def renewal_s(self) -> float:
        """How old a hold may grow before more time is asked for."""
        return self.hold_s / RENEWALS
