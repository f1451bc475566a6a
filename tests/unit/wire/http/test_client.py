"""The client side of HTTP: what is sent, and responses in pieces of any size."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import Malformed, TooLarge
from penstock.wire.http.client import ResponseReader, encode_post
from penstock.wire.http.request import Request, RequestReader

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\nX: y\r\n\r\n"


def test_a_request_is_one_that_the_server_side_reads() -> None:
    sent = encode_post("/v3/kv/txn", "a:1", [("Authorization", "secret")], b'{"a":1}')
    (request,) = RequestReader(1_000).feed(sent)
    assert isinstance(request, Request)
    assert (request.method, request.path, request.body) == ("POST", "/v3/kv/txn", b'{"a":1}')
    assert request.headers["host"] == "a:1"
    assert request.headers["authorization"] == "secret"


@given(st.sampled_from([PLAIN, CHUNKED]), st.lists(st.integers(1, 90)))
def test_a_response_may_come_in_any_pieces(whole: bytes, cuts: list[int]) -> None:
    reader, body = ResponseReader(100), b""
    edges = [0, *sorted(set(cuts)), len(whole)]
    for start, end in pairwise(edges):
        if piece := whole[start : min(end, len(whole))]:
            reader.feed(piece)
            body += reader.take()
    assert (reader.status, reader.is_complete, reader.keeps_alive, body) == (200, True, True, b"hello")


def test_a_response_that_closes_the_connection_says_so() -> None:
    reader = ResponseReader(100)
    reader.feed(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    assert (reader.status, reader.is_complete, reader.keeps_alive) == (503, True, False)


def test_what_is_not_a_response_is_refused() -> None:
    with pytest.raises(Malformed, match="not HTTP"):
        ResponseReader(100).feed(b"SSH-2.0-OpenSSH_9.2\r\n")
    reader = ResponseReader(100)
    reader.feed(PLAIN)
    with pytest.raises(Malformed, match="more than one response"):
        reader.feed(PLAIN)


def test_a_body_is_limited_to_what_nobody_has_taken() -> None:
    reader = ResponseReader(4)
    with pytest.raises(TooLarge, match="over the limit of 4 bytes"):
        reader.feed(PLAIN)
    reader = ResponseReader(4)
    reader.feed(PLAIN[:-3])
    assert reader.take() == b"he"
    reader.feed(PLAIN[-3:])
    assert reader.take() == b"llo"
