"""Why one entry of a batch request was refused, as a value: the other entries of the request are carried out."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class EntryErrorCode(IntEnum):
    """Names and numbers as in Kafka."""

    UNSUPPORTED_SASL_MECHANISM = 33
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93


class EntryError(NamedTuple):
    """The code for programs and the message for people. Never contains a secret."""

    code: EntryErrorCode
    message: str


def invalid_entry(message: str) -> EntryError:
    return EntryError(EntryErrorCode.INVALID_REQUEST, message)
