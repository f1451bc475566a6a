"""Translates broker errors to Kafka's error codes, and counts them. The table is in `wire/kafka`."""

from __future__ import annotations

from penstock.core import errors
from penstock.core.errors import BrokerError
from penstock.node.runtime.meters import count_error
from penstock.wire.kafka import CODES, ErrorCode

DOOR = "kafka"

COORDINATOR_CODES: dict[type[BrokerError], ErrorCode] = {
    errors.NotLeader: ErrorCode.NOT_COORDINATOR,
    errors.LeaderNotAvailable: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.PeerUnavailable: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.Offline: ErrorCode.NOT_COORDINATOR,
    errors.DiskFailed: ErrorCode.NOT_COORDINATOR,
    errors.TornSegment: ErrorCode.NOT_COORDINATOR,
    errors.CorruptBatch: ErrorCode.NOT_COORDINATOR,
    errors.DiskFull: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.OutOfDescriptors: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.NotEnoughReplicas: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.PeerUnavailable: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.TooLarge: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Failures of a coordinator's own partition are reported as coordinator errors, so that clients look it up again."""


def coordinator_code_of(error: BrokerError) -> int:
    """Kafka's error code for a coordinator response."""
    count_error(DOOR, error)
    return int(COORDINATOR_CODES.get(type(error)) or CODES[type(error)])


def code_of(error: BrokerError) -> int:
    """Kafka's error code."""
    count_error(DOOR, error)
    return int(CODES[type(error)])
