"""Messages of etcd's v3 API as its HTTP gateway sends them: JSON with base64 bytes, and int64 as strings.

The gateway omits fields that have their default value, so an absent number is 0 and an absent flag is false. Responses
are not trusted: whatever does not have the expected form raises Malformed.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from penstock.core.errors import Malformed

Operation = dict[str, Any]
Comparison = dict[str, Any]


class Status(IntEnum):
    """The gRPC status codes that matter to a client, and one of our own."""

    FOREIGN = -1
    """The response does not come from etcd's gateway."""
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    OUT_OF_RANGE = 11
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class Failure(NamedTuple):
    """An error response."""

    code: int
    message: str


class KeyValue(NamedTuple):
    """One key as it is stored."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    lease_id: int


class Range(NamedTuple):
    """The keys that a range request found."""

    kvs: tuple[KeyValue, ...]
    total: int
    """All keys in the range, even if the response contains fewer."""

    @property
    def first(self) -> KeyValue | None:
        return self.kvs[0] if self.kvs else None


class Txn(NamedTuple):
    """The outcome of a transaction; `ranges` are the results of its range operations, in order."""

    is_taken: bool
    """Whether all comparisons held."""
    revision: int
    ranges: tuple[Range, ...]


class Change(NamedTuple):
    """One change of a watched key. A removed key has no value."""

    is_removal: bool
    kv: KeyValue


class Watched(NamedTuple):
    """One message of a watch: changes in order of their revisions."""

    revision: int
    changes: tuple[Change, ...]
    is_created: bool
    cancel_reason: str | None
    """Why etcd ended the watch; None while it goes on."""
    compact_revision: int
    """Not 0 if the watch started at a revision that was compacted away: list again, then watch from there."""


# -- requests


def _text(raw: bytes) -> str:
    return b64encode(raw).decode("ascii")


def encode_body(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def range_request(
    key: bytes, range_end: bytes = b"", *, limit: int = 0, revision: int = 0, is_keys_only: bool = False
) -> dict[str, Any]:
    """A linearizable read of one key or of all keys in [key, range_end)."""
    request: dict[str, Any] = {"key": _text(key)}
    if range_end:
        request["range_end"] = _text(range_end)
    if limit:
        request["limit"] = str(limit)
    if revision:
        request["revision"] = str(revision)
    if is_keys_only:
        request["keys_only"] = True
    return request


def get(key: bytes, range_end: bytes = b"", *, limit: int = 0) -> Operation:
    """A read inside a transaction."""
    return {"request_range": range_request(key, range_end, limit=limit)}


def put(key: bytes, value: bytes, lease_id: int = 0) -> Operation:
    request = {"key": _text(key), "value": _text(value)}
    if lease_id:
        request["lease"] = str(lease_id)
    return {"request_put": request}


def delete(key: bytes, range_end: bytes = b"") -> Operation:
    request = {"key": _text(key)}
    if range_end:
        request["range_end"] = _text(range_end)
    return {"request_delete_range": request}


def value_is(key: bytes, value: bytes) -> Comparison:
    return {"key": _text(key), "target": "VALUE", "result": "EQUAL", "value": _text(value)}


def is_absent(key: bytes) -> Comparison:
    return created_at(key, 0)


def exists(key: bytes) -> Comparison:
    return {"key": _text(key), "target": "VERSION", "result": "GREATER", "version": "0"}


def created_at(key: bytes, revision: int) -> Comparison:
    """A key that does not exist counts as created at revision 0."""
    return {"key": _text(key), "target": "CREATE", "result": "EQUAL", "create_revision": str(revision)}


def changed_at(key: bytes, revision: int) -> Comparison:
    """A key that does not exist counts as changed at revision 0."""
    return {"key": _text(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}


def txn_request(
    compare: Sequence[Comparison], success: Sequence[Operation], failure: Sequence[Operation]
) -> dict[str, Any]:
    return {"compare": list(compare), "success": list(success), "failure": list(failure)}


def watch_request(
    key: bytes, range_end: bytes, start_revision: int, *, hides_removals: bool
) -> dict[str, Any]:
    request: dict[str, Any] = {
        "key": _text(key),
        "range_end": _text(range_end),
        "start_revision": str(start_revision),
    }
    if hides_removals:
        request["filters"] = ["NODELETE"]
    return {"create_request": request}


def prefix_end(prefix: bytes) -> bytes:
    """The end of the range of all keys with this prefix."""
    assert prefix and prefix[-1] < 0xFF, prefix
    return prefix[:-1] + bytes([prefix[-1] + 1])


# -- responses


def decode_body(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise Malformed(f"not JSON: {body[:80]!r}") from None
    if not isinstance(message, dict):
        raise Malformed(f"not a JSON object: {body[:80]!r}")
    return message


def decode_failure(body: bytes) -> Failure:
    """An error response; one that is not from etcd's gateway has code FOREIGN and its text as the message."""
    try:
        message = decode_body(body)
    except Malformed:
        return Failure(Status.FOREIGN, body[:200].decode("utf-8", "replace").strip())
    nested = message.get("error")
    if isinstance(nested, dict):
        message = nested
    words = message.get("message") or message.get("error")
    code = message.get("code", message.get("grpc_code"))
    return Failure(code if isinstance(code, int) else Status.UNKNOWN, str(words))


def whole(message: dict[str, Any], name: str) -> int:
    """An int64, which the gateway sends as a string."""
    value = message.get(name, 0)
    try:
        return int(value)
    except (TypeError, ValueError):
        raise Malformed(f"{name} is {value!r}, not a number") from None


def _flag(message: dict[str, Any], name: str) -> bool:
    return message.get(name, False) is True


def _raw(message: dict[str, Any], name: str) -> bytes:
    value = message.get(name, "")
    try:
        return b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise Malformed(f"{name} is {value!r}, not base64") from None


def _objects(message: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = message.get(name) or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise Malformed(f"{name} is not a list of objects")
    return found


def object_in(message: dict[str, Any], name: str) -> dict[str, Any]:
    """A nested message; empty if it is absent."""
    found = message.get(name) or {}
    if not isinstance(found, dict):
        raise Malformed(f"{name} is {found!r}, not an object")
    return found


def decode_range(message: dict[str, Any]) -> Range:
    return Range(tuple(_decode_kv(one) for one in _objects(message, "kvs")), whole(message, "count"))


def decode_unstarted(message: dict[str, Any]) -> set[str]:
    """The peer URLs of listed members without a name: etcd learns it when a member starts."""
    return {
        str(url)
        for member in _objects(message, "members")
        if not member.get("name")
        for url in member.get("peerURLs", ())
    }


def decode_txn(message: dict[str, Any]) -> Txn:
    responses = _objects(message, "responses")
    ranges = tuple(
        decode_range(object_in(one, "response_range")) for one in responses if "response_range" in one
    )
    return Txn(_flag(message, "succeeded"), whole(object_in(message, "header"), "revision"), ranges)


def decode_watched(message: dict[str, Any]) -> Watched:
    """One line of a watch response. An error that the gateway reports inside the stream counts as a cancellation."""
    if "error" in message:
        failure = decode_failure(encode_body(message))
        return Watched(0, (), False, failure.message, 0)
    result = object_in(message, "result")
    reason = str(result.get("cancel_reason") or "cancelled by etcd") if _flag(result, "canceled") else None
    changes = tuple(
        Change(one.get("type") == "DELETE", _decode_kv(object_in(one, "kv")))
        for one in _objects(result, "events")
    )
    revision = whole(object_in(result, "header"), "revision")
    return Watched(revision, changes, _flag(result, "created"), reason, whole(result, "compact_revision"))


def _decode_kv(message: dict[str, Any]) -> KeyValue:
    return KeyValue(
        _raw(message, "key"),
        _raw(message, "value"),
        whole(message, "create_revision"),
        whole(message, "mod_revision"),
        whole(message, "lease"),
    )
