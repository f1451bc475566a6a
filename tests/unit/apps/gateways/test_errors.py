"""Every error of a client has a status, a stable reason, and a hint if it is worth a retry."""

from __future__ import annotations

import grpc
import pytest
from google.rpc import error_details_pb2

from penstock.apps.gateways import errors as table
from penstock.client import errors


def tree(kind: type[errors.ClientError]) -> list[type[errors.ClientError]]:
    return [kind, *(leaf for one in kind.__subclasses__() for leaf in tree(one))]


def test_every_error_has_a_row() -> None:
    own = [one for one in tree(errors.ClientError) if one.__module__ in (errors.__name__, table.__name__)]
    assert [one.__name__ for one in own[1:] if one not in table.TABLE] == []


def test_retriable_errors_say_when() -> None:
    missing = [
        kind.__name__ for kind, row in table.TABLE.items() if kind.retriable and not row.retry_after_ms
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (
            errors.Refused("big", code="MSG_SIZE_TOO_LARGE"),
            grpc.StatusCode.INVALID_ARGUMENT,
            "RECORD_TOO_LARGE",
        ),
        (errors.Refused("no"), grpc.StatusCode.FAILED_PRECONDITION, "REFUSED"),
        (errors.Refused("later", retriable=True), grpc.StatusCode.UNAVAILABLE, "REFUSED"),
        (errors.NotFound("gone"), grpc.StatusCode.NOT_FOUND, "NOT_FOUND"),
        (
            errors.Refused("no", code="TOPIC_AUTHORIZATION_FAILED"),
            grpc.StatusCode.PERMISSION_DENIED,
            "FORBIDDEN",
        ),
    ],
)
def test_translation(error: errors.ClientError, code: grpc.StatusCode, reason: str) -> None:
    found = table.translation_of(error)
    assert (found.code, found.reason) == (code, reason)


def test_details_of_a_status() -> None:
    status = table.status_of(errors.Unreachable("nobody"), "r-1")
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    assert status.details[0].Unpack(info)
    assert status.details[1].Unpack(retry)
    assert (info.reason, info.domain) == ("UNREACHABLE", "penstock")
    assert dict(info.metadata) == {"retriable": "true", "request_id": "r-1"}
    assert retry.retry_delay.ToMilliseconds() == 500
    failure = table.failure_message(errors.NotFound("gone"))
    assert (failure.code, failure.retriable, failure.retry_after_ms) == (5, False, 0)
