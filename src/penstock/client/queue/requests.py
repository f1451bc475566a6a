"""Builds queue protocol requests and reads their responses, for the blocking and the asyncio client. No I/O."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from penstock.client.errors import BadArgument
from penstock.client.queue.session import QueueResponse, message_properties
from penstock.core.model import Header
from penstock.wire.queue.frames import MessageType
from penstock.wire.queue.properties import properties_of
from penstock.wire.queue.request_properties import (
    COUNT,
    DELIVERIES_MAX,
    EXISTED,
    HEARTBEAT_MS,
    HOLD_MS,
    MISSING,
    PARTITION,
    PARTITIONS,
    START_OFFSET,
    SUBSCRIPTION,
    TOPIC,
    TRUE,
    WINDOW,
)

logger = logging.getLogger("penstock.client")

RENEWALS = 3
"""A held message is renewed this many times per hold timeout."""

ADDRESS_VARIABLE = "PENSTOCK_QUEUE"
ADDRESS_DEFAULT = "localhost:9999"


def queue_address(host: str | None, port: int | None, known: str | None = None) -> tuple[str, int]:
    """Address of the queue listener: from the arguments, the environment or profile, or the default.

    Raises BadArgument.
    """
    found = known or os.environ.get(ADDRESS_VARIABLE) or ADDRESS_DEFAULT
    known_host, colon, known_port = found.rpartition(":")
    if not (colon and known_host and known_port.isascii() and known_port.isdigit()):
        raise BadArgument(f"invalid {ADDRESS_VARIABLE} {found!r}: expected HOST:PORT")
    if port is not None and not 0 < port < 2**16:
        raise BadArgument(f"invalid port {port}: expected 1 to 65535")
    return host or known_host, int(known_port) if port is None else port


class QueueRequest(NamedTuple):
    """One request, not yet bound to a connection."""

    kind: MessageType
    properties: tuple[tuple[str, str], ...]
    body: bytes = b""
    timestamp_ms: int = 0


def _properties(*pairs: tuple[str, object | None]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in pairs if value is not None)


def create_topic_request(topic: str, partitions: int | None) -> QueueRequest:
    return QueueRequest(MessageType.CREATE_TOPIC, _properties((TOPIC, topic), (PARTITIONS, partitions)))


def publish_request(
    topic: str,
    body: bytes | None,
    *,
    key: bytes | str | None,
    partition: int | None,
    headers: Iterable[tuple[str, bytes | None]],
    properties: Mapping[str, object],
    timestamp_ms: int,
) -> QueueRequest:
    if not isinstance(body, bytes | bytearray | memoryview | None):
        raise BadArgument(f"body must be bytes or None, not {type(body).__name__}; use publish_text for text")
    own = properties_of(
        key.encode() if isinstance(key, str) else key,
        [Header(name, value) for name, value in headers],
        is_null=body is None,
    )
    all_properties = (
        *_properties((TOPIC, topic), (PARTITION, partition)),
        *own,
        *message_properties(properties),
    )
    return QueueRequest(MessageType.PUBLISH, all_properties, bytes(body or b""), timestamp_ms)


def create_subscription_request(
    name: str, topic: str, start_offset: int, hold_ms: int | None, max_deliveries: int | None
) -> QueueRequest:
    return QueueRequest(
        MessageType.CREATE_SUBSCRIPTION,
        _properties(
            (SUBSCRIPTION, name),
            (TOPIC, topic),
            (START_OFFSET, start_offset),
            (HOLD_MS, hold_ms),
            (DELIVERIES_MAX, max_deliveries),
        ),
    )


def subscribe_request(name: str, window: int | None) -> QueueRequest:
    return QueueRequest(MessageType.SUBSCRIBE, _properties((SUBSCRIPTION, name), (WINDOW, window)))


def subscription_request(kind: MessageType, name: str) -> QueueRequest:
    """A request whose only property is the subscription name."""
    return QueueRequest(kind, _properties((SUBSCRIPTION, name)))


def list_request() -> QueueRequest:
    return QueueRequest(MessageType.LIST_SUBSCRIPTIONS, ())


def redrive_request(name: str, count: int | None) -> QueueRequest:
    return QueueRequest(MessageType.REDRIVE, _properties((SUBSCRIPTION, name), (COUNT, count)))


# -- responses


def was_created(response: QueueResponse) -> bool:
    """Whether this request created the topic or subscription, rather than finding it."""
    return response.properties.get(EXISTED) != TRUE


def count_in(response: QueueResponse) -> int:
    return int(response.properties[COUNT])


def listed_in(response: QueueResponse) -> list[dict[str, Any]]:
    """The listed subscriptions; logs a warning if brokers did not answer, so that theirs are missing."""
    missing = response.properties.get(MISSING)
    if missing:
        logger.warning(
            "the list of subscriptions is incomplete: no answer from brokers %s (? for a broker that is down)",
            missing,
        )
    found: list[dict[str, Any]] = json.loads(response.body)
    return found


def described_in(response: QueueResponse) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(response.body)
    return found


class MemberTerms(NamedTuple):
    """Limits of a member: the heartbeat interval and how long it may hold a message."""

    heartbeat_s: float = 30.0
    hold_s: float = 30.0

    def joined(self, response: QueueResponse) -> MemberTerms:
        """The strictest limits of this subscription and all earlier ones."""
        return MemberTerms(
            min(self.heartbeat_s, int(response.properties[HEARTBEAT_MS]) / 1000),
            min(self.hold_s, int(response.properties[HOLD_MS]) / 1000),
        )

    @property
    def renewal_s(self) -> float:
        """Age at which a held message is renewed."""
        return self.hold_s / RENEWALS
