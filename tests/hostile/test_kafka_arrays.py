"""Every array of every Kafka call, as long as it may be and longer: nobody else waits for it."""

from __future__ import annotations

import socket
import struct
from contextlib import ExitStack
from typing import Any

import pytest

from hostile.harness import Harness
from hostile.requests import array_paths, many
from penstock.core.limits import PRODUCE_ELEMENTS_MAX, REQUEST_ELEMENTS_MAX
from penstock.wire.kafka import API, ApiKey, decode_response, encode_request, messages
from penstock.wire.kafka.bounds import elements_max

VALUES: dict[int, dict[str, Any]] = {
    ApiKey.PRODUCE: {"acks": 1},
    ApiKey.METADATA: {"allow_auto_topic_creation": False},
}
"""What is set at the top of a request beside its entries."""

NESTING_MAX = 3
"""Elements around the innermost array of a request."""

HANDLED = (
    0, 1, 2, 3, 8, 9, 10, 11, 13, 14, 15, 16, 19, 20, 21,
    23, 24, 27, 28, 29, 30, 31, 32, 33, 35, 37, 42, 43, 44, 45,
    46, 47, 48, 50, 55, 57, 61, 65, 66, 68, 69, 74, 75,
)  # fmt: skip
"""The calls with an array in their request; `test_no_call_is_left_out` compares them with what the broker offers."""

CLOSING = {ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS}
"""Calls with a lower limit of their own, and no place in their answer for the error."""

CASES = [(key, path) for key in HANDLED for path in array_paths(key, API[key].version_max)]
SHORT = {ApiKey.FETCH, ApiKey.METADATA, ApiKey.OFFSET_COMMIT, ApiKey.DESCRIBE_GROUPS}
"""What `make test` runs; `make hostile` runs all."""


def _id(case: tuple[int, tuple[str, ...]]) -> str:
    return f"{API[case[0]].name}-{'.'.join(case[1])}"


def _ask(harness: Harness, request: bytes) -> int | None:
    """The size of the answer; None if the broker closes the connection."""
    with harness.connect() as connection:
        connection.sendall(request)
        received = bytearray()
        while len(received) < 4 or len(received) < 4 + struct.unpack_from(">i", received)[0]:
            try:
                part = connection.recv(1 << 20)
            except ConnectionResetError:
                return None
            if not part:
                return None
            received += part
        return len(received)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[] if case[0] in SHORT else pytest.mark.slow, id=_id(case)) for case in CASES],
)
def test_as_many_entries_as_allowed(harness: Harness, case: tuple[int, tuple[str, ...]]) -> None:
    key, path = case
    count = elements_max(key) - NESTING_MAX
    request = many(key, API[key].version_max, path, count, **VALUES.get(key, {}))
    name = f"{API[key].name} {'.'.join(path)} x {count:,}"
    answer = harness.measure("kafka", name, lambda: _ask(harness, request))
    assert (answer is None) == (key in CLOSING)


def test_no_call_is_left_out(harness: Harness) -> None:
    with harness.connect() as connection:
        connection.sendall(
            encode_request(ApiKey.API_VERSIONS, 0, 7, "attacker", messages.ApiVersionsRequest())
        )
        frame = _exactly(connection, struct.unpack(">i", _exactly(connection, 4))[0])
    _, answer = decode_response(ApiKey.API_VERSIONS, 0, frame)
    offered = {one.api_key for one in answer.api_keys if array_paths(one.api_key, one.max_version)}
    assert offered - set(HANDLED) == set()


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.PRODUCE], ids=lambda key: API[key].name)
def test_one_entry_too_many_ends_the_connection_and_says_why(harness: Harness, key: ApiKey) -> None:
    limit = {ApiKey.METADATA: REQUEST_ELEMENTS_MAX, ApiKey.PRODUCE: PRODUCE_ELEMENTS_MAX}[key]
    (path, *_) = array_paths(key, API[key].version_max)
    request = many(key, API[key].version_max, path, limit + 1)
    logged = len(harness.broker.output())
    with harness.case("kafka", f"{API[key].name} {'.'.join(path)} x {limit + 1:,}", growth_mib_max=64.0):
        assert _ask(harness, request) is None
    assert f"more than {limit} elements" in harness.broker.output()[logged:]


def test_many_clients_with_large_requests_at_once(harness: Harness) -> None:
    """Their elements in flight are bounded, so memory is; each gets its answer."""
    count = REQUEST_ELEMENTS_MAX // 2
    request = many(ApiKey.METADATA, 12, ("topics",), count, **VALUES[ApiKey.METADATA])

    def attack() -> list[int]:
        with ExitStack() as stack:
            connections = [stack.enter_context(harness.connect()) for _ in range(20)]
            for connection in connections:
                connection.sendall(request)
            return [struct.unpack(">i", connection.recv(4))[0] for connection in connections]

    sizes = harness.measure("kafka", f"20 clients, Metadata topics x {count:,}", attack)
    assert len(set(sizes)) == 1 and sizes[0] > count


def test_the_requests_of_a_connection_are_answered_in_their_order(harness: Harness) -> None:
    """A large request in front does not let the small ones behind it overtake."""
    large = many(ApiKey.METADATA, 12, ("topics",), 50_000, **VALUES[ApiKey.METADATA])
    small = many(ApiKey.FIND_COORDINATOR, 4, ("coordinator_keys",), 1)
    sent = [large, small, large, small]
    with harness.connect() as connection:
        connection.sendall(b"".join(sent))
        sizes = [_answer_bytes(connection) for _ in sent]
    assert sizes[0] == sizes[2] > 50_000 > sizes[1] == sizes[3]


def _answer_bytes(connection: socket.socket) -> int:
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    _exactly(connection, size)
    return int(size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        assert part, "the broker closed the connection"
        data += part
    return bytes(data)
