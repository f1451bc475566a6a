"""The first request of a Subscribe stream, validated: options of the client, and limits of the stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.apps.gateways.settings import ConsumerSettings
from penstock.client.errors import BadArgument
from penstock.client.options import ConsumerOptions, DeliverySemantics
from penstock.v1 import consumer_pb2, message_pb2

BATCH_MESSAGES = 1_000
BATCH_MESSAGES_MAX = 10_000
IN_FLIGHT = 10_000
IN_FLIGHT_MAX = 1_000_000
COMMIT_INTERVAL_MS = 5_000

_DELIVERIES: dict[int, DeliverySemantics] = {
    message_pb2.DELIVERY_MODE_UNSPECIFIED: "at_least_once",
    message_pb2.DELIVERY_MODE_AT_MOST_ONCE: "at_most_once",
    message_pb2.DELIVERY_MODE_AT_LEAST_ONCE: "at_least_once",
    message_pb2.DELIVERY_MODE_EXACTLY_ONCE: "exactly_once",
}


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What a stream asks for."""

    topics: list[str]
    options: ConsumerOptions
    commit_mode: int
    """AUTO, MANUAL or ACK; MANUAL if the delivery mode commits by itself."""
    batch_messages_max: int
    in_flight_max: int
    transactional_id: str

    @property
    def is_exactly_once(self) -> bool:
        return self.options["delivery"] == "exactly_once"


def read_start(start: consumer_pb2.Start, settings: ConsumerSettings) -> StreamPlan:
    """Validate the first request. Raises BadArgument."""
    topics = list(start.topics)
    if not start.group:
        raise BadArgument("group is empty; read without a group with Fetch.")
    if not topics or not all(topics):
        raise BadArgument("topics is empty, or has an empty name.")
    if start.delivery not in _DELIVERIES:
        raise BadArgument(f"unknown delivery {start.delivery}.")
    delivery = _DELIVERIES[start.delivery]
    mode = _commit_mode(start, delivery)
    if (delivery == "exactly_once") != bool(start.transactional_id):
        raise BadArgument("EXACTLY_ONCE needs transactional_id, and only EXACTLY_ONCE has one.")
    options: ConsumerOptions = {
        "group": start.group,
        "client_id": "penstock-consumer-service",
        "delivery": delivery,
        "commit": "auto" if mode != consumer_pb2.COMMIT_MODE_MANUAL else "manual",
        "commit_interval_ms": start.auto_commit_interval_ms or COMMIT_INTERVAL_MS,
        "reset": _reset(start),
        "session_ms": start.session_timeout_ms or settings.session_ms,
    }
    if delivery == "at_most_once":
        options["commit"] = "auto"
    if start.instance_id:
        options["instance_id"] = start.instance_id
    return StreamPlan(
        topics,
        options,
        mode,
        _bounded("max_batch_messages", start.max_batch_messages, BATCH_MESSAGES, BATCH_MESSAGES_MAX),
        _bounded("max_in_flight", start.max_in_flight, IN_FLIGHT, IN_FLIGHT_MAX),
        start.transactional_id,
    )


def _commit_mode(start: consumer_pb2.Start, delivery: DeliverySemantics) -> int:
    if start.commit_mode not in consumer_pb2.CommitMode.values():
        raise BadArgument(f"unknown commit_mode {start.commit_mode}.")
    if delivery == "at_least_once":
        return start.commit_mode or consumer_pb2.COMMIT_MODE_AUTO
    if start.commit_mode not in (consumer_pb2.COMMIT_MODE_UNSPECIFIED, consumer_pb2.COMMIT_MODE_AUTO):
        raise BadArgument("commit_mode is for AT_LEAST_ONCE: other delivery modes commit in their own way.")
    return consumer_pb2.COMMIT_MODE_MANUAL


def _reset(start: consumer_pb2.Start) -> Literal["earliest", "latest"] | int:
    match start.reset:
        case consumer_pb2.RESET_POLICY_UNSPECIFIED | consumer_pb2.RESET_POLICY_EARLIEST:
            return "earliest"
        case consumer_pb2.RESET_POLICY_LATEST:
            return "latest"
        case consumer_pb2.RESET_POLICY_OFFSET:
            return start.reset_offset
    raise BadArgument(f"reset {start.reset}: use EARLIEST, LATEST or OFFSET with Subscribe.")


def _bounded(name: str, value: int, default: int, most: int) -> int:
    if not 0 <= value <= most:
        raise BadArgument(f"{name} {value}: expected 0 (the default, {default}) to {most}.")
    return value or default
