"""Translates client errors to gRPC statuses: the single table, with the reason and the hint when to try again.

`failure_message` is the form inside a response, `status_of` the form of a failed call. Both have the same fields.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from penstock.client import errors
from penstock.v1 import message_pb2

DOMAIN = "penstock"


class Overloaded(errors.ClientError):
    """The service has as many calls of this kind in progress as it may have."""

    retriable = True


class Translation(NamedTuple):
    """Status, stable reason, and how long a client should wait before it tries again."""

    code: grpc.StatusCode
    reason: str
    retry_after_ms: int = 0


Code = grpc.StatusCode

TABLE: dict[type[errors.ClientError], Translation] = {
    errors.BadArgument: Translation(Code.INVALID_ARGUMENT, "BAD_ARGUMENT"),
    errors.SerializationFailed: Translation(Code.INVALID_ARGUMENT, "SERIALIZATION_FAILED"),
    errors.NotInstalled: Translation(Code.UNIMPLEMENTED, "NOT_INSTALLED"),
    errors.IllegalState: Translation(Code.FAILED_PRECONDITION, "ILLEGAL_STATE"),
    errors.Unreachable: Translation(Code.UNAVAILABLE, "UNREACHABLE", 500),
    errors.TlsFailed: Translation(Code.FAILED_PRECONDITION, "TLS_FAILED"),
    errors.TimedOut: Translation(Code.DEADLINE_EXCEEDED, "TIMED_OUT", 100),
    errors.Pending: Translation(Code.UNAVAILABLE, "PENDING", 100),
    errors.DeliveryFailed: Translation(Code.UNAVAILABLE, "DELIVERY_FAILED", 500),
    errors.Aborted: Translation(Code.ABORTED, "ABORTED", 100),
    errors.Fenced: Translation(Code.FAILED_PRECONDITION, "FENCED"),
    errors.Refused: Translation(Code.FAILED_PRECONDITION, "REFUSED", 500),
    errors.AuthenticationFailed: Translation(Code.FAILED_PRECONDITION, "AUTHENTICATION_FAILED"),
    errors.NotFound: Translation(Code.NOT_FOUND, "NOT_FOUND"),
    errors.AlreadyThere: Translation(Code.ALREADY_EXISTS, "ALREADY_EXISTS"),
    errors.OffsetOutOfRange: Translation(Code.OUT_OF_RANGE, "OFFSET_OUT_OF_RANGE"),
    errors.RecordsLost: Translation(Code.DATA_LOSS, "RECORDS_LOST"),
    errors.RecordsDamaged: Translation(Code.DATA_LOSS, "RECORDS_DAMAGED"),
    Overloaded: Translation(Code.RESOURCE_EXHAUSTED, "OVERLOADED", 200),
}
"""By class of error. A test walks the tree of client errors: every class has a row."""

_TOO_LARGE = Translation(Code.INVALID_ARGUMENT, "RECORD_TOO_LARGE")
_FORBIDDEN = Translation(Code.PERMISSION_DENIED, "FORBIDDEN")
_BAD_NAME = Translation(Code.INVALID_ARGUMENT, "INVALID_TOPIC_NAME")
_NO_REPLICAS = Translation(Code.UNAVAILABLE, "NOT_ENOUGH_REPLICAS", 500)

BY_CODE: dict[str, Translation] = {
    "MSG_SIZE_TOO_LARGE": _TOO_LARGE,
    "MESSAGE_TOO_LARGE": _TOO_LARGE,
    "RECORD_LIST_TOO_LARGE": _TOO_LARGE,
    "INVALID_MSG_SIZE": _TOO_LARGE,
    "TOPIC_AUTHORIZATION_FAILED": _FORBIDDEN,
    "GROUP_AUTHORIZATION_FAILED": _FORBIDDEN,
    "CLUSTER_AUTHORIZATION_FAILED": _FORBIDDEN,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": _FORBIDDEN,
    "TOPIC_EXCEPTION": _BAD_NAME,
    "INVALID_TOPIC_EXCEPTION": _BAD_NAME,
    "NOT_ENOUGH_REPLICAS": _NO_REPLICAS,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": _NO_REPLICAS,
    "NON_EMPTY_GROUP": Translation(Code.FAILED_PRECONDITION, "GROUP_HAS_MEMBERS"),
    "INVALID_PARTITIONS": Translation(Code.INVALID_ARGUMENT, "INVALID_PARTITIONS"),
    "INVALID_REPLICATION_FACTOR": Translation(Code.INVALID_ARGUMENT, "INVALID_REPLICATION_FACTOR"),
    "INVALID_CONFIG": Translation(Code.INVALID_ARGUMENT, "INVALID_CONFIG"),
}
"""By code of the broker, where it says more than the class of the error."""


def translation_of(error: errors.ClientError) -> Translation:
    """The row of an error: that of its broker code, or that of the nearest class."""
    found = BY_CODE.get(error.code) or next(TABLE[one] for one in type(error).__mro__ if one in TABLE)
    if found.code is Code.FAILED_PRECONDITION and error.retriable:
        return found._replace(code=Code.UNAVAILABLE)
    return found


def failure_message(error: errors.ClientError) -> message_pb2.Failure:
    """An error as a field of a response."""
    found = translation_of(error)
    return message_pb2.Failure(
        code=found.code.value[0],
        reason=found.reason,
        message=error.message,
        retriable=error.retriable,
        retry_after_ms=found.retry_after_ms if error.retriable else 0,
    )


def status_of(error: errors.ClientError, request_id: str = "") -> status_pb2.Status:
    """An error as the status of a call, with ErrorInfo and, if it is retriable, RetryInfo."""
    found = translation_of(error)
    metadata = {"retriable": str(error.retriable).lower()}
    if error.code:
        metadata["broker_code"] = error.code
    if request_id:
        metadata["request_id"] = request_id
    details: list[Any] = [error_details_pb2.ErrorInfo(reason=found.reason, domain=DOMAIN, metadata=metadata)]
    if error.retriable and found.retry_after_ms:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(found.retry_after_ms)
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    status = status_pb2.Status(code=found.code.value[0], message=error.message)
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status


async def abort(context: Any, error: errors.ClientError, request_id: str = "") -> NoReturn:
    """End a call with the status of an error."""
    await context.abort_with_status(rpc_status.to_status(status_of(error, request_id)))
    raise AssertionError("abort does not return")
