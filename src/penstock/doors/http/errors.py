"""Translates broker errors to HTTP statuses and problem+json. The only such table of this door.

Errors of HTTP itself (unknown path, method, missing length) have no broker error and use `problem` directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from penstock.core import errors
from penstock.core.errors import BrokerError, Damaged, NotNow, message_of
from penstock.node.runtime.meters import count_error
from penstock.wire.http.response import PROBLEM, Response, json_bytes

DOOR = "http"
RETRY_AFTER_S = 1

STATUSES: dict[type[BrokerError], HTTPStatus] = {
    errors.UnknownTopic: HTTPStatus.NOT_FOUND,
    errors.UnknownTopicId: HTTPStatus.NOT_FOUND,
    errors.TopicExists: HTTPStatus.CONFLICT,
    errors.InvalidTopic: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.InvalidPartitions: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.InvalidReplication: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.InvalidAssignment: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.AgainstPolicy: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.InvalidConfig: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.InvalidRequest: HTTPStatus.BAD_REQUEST,
    errors.Malformed: HTTPStatus.BAD_REQUEST,
    errors.ForeignProtocol: HTTPStatus.BAD_REQUEST,
    errors.UnsupportedVersion: HTTPStatus.BAD_REQUEST,
    errors.TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.InvalidRecord: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.InvalidTimestamp: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.UnsupportedCompression: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.OffsetOutOfRange: HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    errors.Fenced: HTTPStatus.CONFLICT,
    errors.OutOfOrder: HTTPStatus.CONFLICT,
    errors.StaleProducer: HTTPStatus.CONFLICT,
    errors.UnknownProducer: HTTPStatus.CONFLICT,
    errors.FencedProducer: HTTPStatus.CONFLICT,
    errors.WrongProducer: HTTPStatus.CONFLICT,
    errors.InvalidTransactionState: HTTPStatus.CONFLICT,
    errors.TransactionAbortable: HTTPStatus.CONFLICT,
    errors.InvalidTransactionTimeout: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.UnknownTransaction: HTTPStatus.NOT_FOUND,
    errors.NoTransactionalId: HTTPStatus.FORBIDDEN,
    errors.StaleCoordinator: HTTPStatus.CONFLICT,
    errors.TopicForbidden: HTTPStatus.FORBIDDEN,
    errors.GroupForbidden: HTTPStatus.FORBIDDEN,
    errors.ClusterForbidden: HTTPStatus.FORBIDDEN,
    errors.TransactionalIdForbidden: HTTPStatus.FORBIDDEN,
    errors.UnknownBroker: HTTPStatus.NOT_FOUND,
    errors.StaleBrokerEpoch: HTTPStatus.CONFLICT,
    errors.DuplicateBroker: HTTPStatus.CONFLICT,
    errors.WrongCluster: HTTPStatus.CONFLICT,
    errors.StalePartitionEpoch: HTTPStatus.CONFLICT,
    errors.IneligibleReplica: HTTPStatus.CONFLICT,
    errors.NoReassignment: HTTPStatus.NOT_FOUND,
    errors.ElectionNotNeeded: HTTPStatus.CONFLICT,
    errors.SecurityDisabled: HTTPStatus.CONFLICT,
    errors.SingleBroker: HTTPStatus.CONFLICT,
    errors.IllegalMove: HTTPStatus.CONFLICT,
    errors.InvalidGroup: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.UnknownGroup: HTTPStatus.NOT_FOUND,
    errors.UnknownMember: HTTPStatus.NOT_FOUND,
    errors.StaleGeneration: HTTPStatus.CONFLICT,
    errors.FencedInstance: HTTPStatus.CONFLICT,
    errors.FencedMember: HTTPStatus.CONFLICT,
    errors.StaleMember: HTTPStatus.CONFLICT,
    errors.UnreleasedInstance: HTTPStatus.CONFLICT,
    errors.UnknownAssignor: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.InvalidRegex: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.NotHeld: HTTPStatus.CONFLICT,
    errors.MemberIdRequired: HTTPStatus.CONFLICT,
    errors.InconsistentProtocol: HTTPStatus.CONFLICT,
    errors.InvalidSession: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.GroupFull: HTTPStatus.CONFLICT,
    errors.GroupNotEmpty: HTTPStatus.CONFLICT,
    errors.GroupSubscribed: HTTPStatus.CONFLICT,
    errors.MetadataTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.NotLeader: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.LeaderNotAvailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.NotController: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.NoEligibleLeader: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.PreferredLeaderUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.UnknownEpoch: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.Loading: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.Throttled: HTTPStatus.TOO_MANY_REQUESTS,
    errors.TimedOut: HTTPStatus.GATEWAY_TIMEOUT,
    errors.MetadataUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.PeerUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.NotEnoughReplicas: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.CoordinatorUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.NotCoordinator: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.Rebalancing: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.TransactionBusy: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.OffsetNotAvailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.UnstableOffset: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.CorruptBatch: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.TornSegment: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.DiskFull: HTTPStatus.INSUFFICIENT_STORAGE,
    errors.DiskFailed: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.OutOfDescriptors: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.Offline: HTTPStatus.SERVICE_UNAVAILABLE,
}

ADVICE: dict[type[BrokerError], str] = {
    errors.UnknownTopic: "List topics with GET /api/v1/topics, or create this one with POST /api/v1/topics.",
    errors.TopicExists: "Use the existing topic, or change it with PATCH /api/v1/topics/{topic}.",
    errors.UnknownGroup: "List groups with GET /api/v1/groups.",
    errors.OffsetOutOfRange: "Read from an offset between start_offset and end_offset of GET /api/v1/topics/{topic}, "
    "or from offset=earliest.",
    errors.InvalidConfig: "See configs of GET /api/v1/topics/{topic} for the settings of a topic.",
    errors.InvalidRequest: "Compare the request with /openapi.json.",
    errors.Malformed: "Send HTTP/1.1 as RFC 9112 defines it.",
    errors.TooLarge: "Send fewer messages per batch, or smaller values.",
    errors.DiskFull: "Free space on the broker's disk, then retry.",
    errors.Offline: "Repair the broker's disk and restart it; its log says what failed.",
}

_REFUSED = "Change the request as described in the detail; retrying it unchanged will fail again."
_NOT_NOW = "The request is valid; retry it later."
_DAMAGED = "Check the broker's log; the data of that partition needs attention."


def problem(
    status: HTTPStatus, code: str, detail: str, what_to_do: str, headers: Sequence[tuple[str, str]] = ()
) -> Response:
    """A problem+json response (RFC 9457)."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": status.phrase,
        "status": int(status),
        "code": code,
        "detail": detail,
        "what_to_do": what_to_do,
    }
    return Response(status, json_bytes(body), PROBLEM, headers)


def problem_of(error: BrokerError, status: HTTPStatus | None = None) -> Response:
    """The response for a broker error."""
    count_error(DOOR, error)
    status = status or STATUSES[type(error)]
    is_passing = isinstance(error, NotNow)
    headers = [("Retry-After", str(RETRY_AFTER_S))] if is_passing else []
    return problem(status, error.code, message_of(error), advice_of(error), headers)


def refusal_fields(error: BrokerError) -> dict[str, Any]:
    """An error as one field of a response that is otherwise fine."""
    count_error(DOOR, error)
    return {"code": error.code, "detail": message_of(error), "what_to_do": advice_of(error)}


def advice_of(error: BrokerError) -> str:
    """What the client can do about the error."""
    fallback = _NOT_NOW if isinstance(error, NotNow) else _DAMAGED if isinstance(error, Damaged) else _REFUSED
    return ADVICE.get(type(error), fallback)
