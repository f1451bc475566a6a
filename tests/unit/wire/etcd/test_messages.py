"""Messages of etcd as its gateway writes them: defaults left out, int64 as strings, bytes as base64."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import Malformed
from penstock.wire.etcd import messages
from penstock.wire.etcd.messages import Change, Failure, KeyValue, Range, Status, Txn, Watched

HEADER = {"cluster_id": "17300438976491492131", "member_id": "1", "revision": "4", "raft_term": "2"}
HEAD = {"key": "aGVhZA==", "create_revision": "2", "mod_revision": "3", "version": "2", "value": "Mg=="}
FOUND = KeyValue(b"head", b"2", 2, 3, 0)


def test_a_transaction_that_was_taken() -> None:
    body = {
        "header": HEADER,
        "succeeded": True,
        "responses": [
            {"response_put": {"header": {"revision": "4"}}},
            {"response_range": {"kvs": [HEAD], "count": "1"}},
            {"response_range": {"header": {"revision": "4"}}},
        ],
    }
    assert messages.decode_txn(body) == Txn(True, 4, (Range((FOUND,), 1), Range((), 0)))


def test_a_transaction_that_was_not_taken_has_no_flag() -> None:
    assert messages.decode_txn({"header": HEADER}) == Txn(False, 4, ())


def test_messages_of_a_watch() -> None:
    created = {"result": {"header": HEADER, "created": True}}
    assert messages.decode_watched(created) == Watched(4, (), True, None, 0)
    changed = {
        "result": {"header": HEADER, "events": [{"kv": HEAD}, {"type": "DELETE", "kv": {"key": "eA=="}}]}
    }
    assert messages.decode_watched(changed).changes == (
        Change(False, FOUND),
        Change(True, KeyValue(b"x", b"", 0, 0, 0)),
    )
    compacted = {"result": {"header": {"raft_term": "2"}, "canceled": True, "compact_revision": "3"}}
    assert messages.decode_watched(compacted) == Watched(0, (), False, "cancelled by etcd", 3)
    failed = {"error": {"grpc_code": 14, "http_code": 503, "message": "etcdserver: no leader"}}
    assert messages.decode_watched(failed).cancel_reason == "etcdserver: no leader"


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        (
            b'{"error":"etcdserver: x","message":"etcdserver: x","code":5}',
            Failure(Status.NOT_FOUND, "etcdserver: x"),
        ),
        (b'{"code":14, "message":"gone"}', Failure(Status.UNAVAILABLE, "gone")),
        (b"404 page not found\n", Failure(Status.FOREIGN, "404 page not found")),
        (b"[]", Failure(Status.FOREIGN, "[]")),
        (b"{}", Failure(Status.UNKNOWN, "None")),
    ],
)
def test_errors_of_all_versions(body: bytes, failure: Failure) -> None:
    assert messages.decode_failure(body) == failure


@pytest.mark.parametrize(
    "body",
    [
        {"responses": 1},
        {"responses": [1]},
        {"header": {"revision": "many"}},
        {"header": []},
        {"responses": [{"response_range": {"kvs": [{"key": "%%"}]}}]},
        {"responses": [{"response_range": {"kvs": [{"lease": {}}]}}]},
    ],
)
def test_what_has_another_form_is_refused(body: dict[str, Any]) -> None:
    if body.get("header") == []:
        assert messages.decode_txn(body).revision == 0, "an empty list stands for an absent message"
        return
    with pytest.raises(Malformed):
        messages.decode_txn(body)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda one: (
            st.lists(one)
            | st.dictionaries(
                st.sampled_from(
                    ["header", "responses", "response_range", "kvs", "result", "events", "kv", "key", "error"]
                ),
                one,
            )
        ),
    )
)
def test_any_json_is_read_or_refused(value: Any) -> None:
    try:
        body = messages.decode_body(json.dumps(value).encode())
        messages.decode_txn(body)
        messages.decode_watched(body)
    except Malformed:
        pass
    messages.decode_failure(json.dumps(value).encode())


@given(st.binary(min_size=1).filter(lambda one: one[-1] < 255), st.binary(), st.binary())
def test_the_end_of_a_prefix_is_behind_all_its_keys_and_before_all_others(
    prefix: bytes, rest: bytes, other: bytes
) -> None:
    end = messages.prefix_end(prefix)
    assert prefix <= prefix + rest < end
    assert other.startswith(prefix) == (prefix <= other < end)


def test_requests_carry_numbers_as_strings() -> None:
    assert messages.put(b"k", b"v", 7) == {"request_put": {"key": "aw==", "value": "dg==", "lease": "7"}}
    assert messages.range_request(b"k", b"l", limit=2, revision=9, is_keys_only=True) == {
        "key": "aw==",
        "range_end": "bA==",
        "limit": "2",
        "revision": "9",
        "keys_only": True,
    }
    assert messages.is_absent(b"k")["create_revision"] == "0"
