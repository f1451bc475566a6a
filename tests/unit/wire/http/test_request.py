"""Requests are the same however their bytes are cut, and nothing that is not one passes for one."""

from __future__ import annotations

import pytest

from penstock.core.errors import BrokerError, Malformed, TooLarge
from penstock.wire.http.request import (
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    Continue,
    Event,
    Request,
    RequestReader,
    Upgrade,
    segments_of,
)

BODY_MAX = 1000
POST = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
CHUNKED = (
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\nT: x\r\n\r\n"
)
GET = b"GET /t/b%2Fc?x=1&y=%C3%A4&x=2 HTTP/1.1\r\nHost: x\r\nAccept: a\r\nACCEPT: b\r\n\r\n"


def read(content: bytes, step: int = 0) -> list[Event]:
    reader = RequestReader(BODY_MAX)
    events: list[Event] = []
    for at in range(0, len(content), step or len(content)):
        events += reader.feed(memoryview(content)[at : at + (step or len(content))])
    return events


@pytest.mark.parametrize("step", [0, 1, 7])
def test_pipelined_requests_come_out_one_by_one(step: int) -> None:
    post, chunked, get = read(POST + CHUNKED + GET, step)
    assert isinstance(post, Request) and isinstance(chunked, Request) and isinstance(get, Request)
    assert (post.method, post.body, post.has_body) == ("POST", b"abc", True)
    assert (chunked.body, chunked.has_body) == (b"abc", True)
    assert (get.method, get.path, get.has_body) == ("GET", "/t/b%2Fc", False)
    assert get.query == {"x": ["1", "2"], "y": ["ä"]}
    assert get.headers["accept"] == "a, b"
    assert "t" not in chunked.headers, "what stands behind a body is not a header"


def test_the_path_is_cut_before_its_escapes_are_undone() -> None:
    assert segments_of("/t/b%2Fc") == ["t", "b/c"]
    assert segments_of("/%ff") is None


def test_a_client_that_closes_is_listened_to_no_further() -> None:
    first = GET.replace(b"Accept: a", b"Connection: close")
    events = read(first + GET)
    assert len(events) == 1
    assert isinstance(events[0], Request) and not events[0].keeps_alive
    (old,) = read(b"GET / HTTP/1.0\r\n\r\n")
    assert isinstance(old, Request) and old.is_old and not old.keeps_alive


def test_a_body_that_waits_to_be_asked_for() -> None:
    head, _, _ = POST.partition(b"\r\n\r\n")
    reader = RequestReader(BODY_MAX)
    assert reader.feed(head + b"\r\nExpect: 100-continue\r\n\r\n") == [Continue()]
    assert reader.is_midway
    (request,) = reader.feed(b"abc")
    assert isinstance(request, Request) and request.body == b"abc"
    assert not reader.is_midway


def test_an_upgrade_to_websocket_hands_over_the_rest() -> None:
    wish = b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n"
    (upgrade,) = read(wish % b"websocket" + b"\x81\x00")
    assert isinstance(upgrade, Upgrade)
    assert (upgrade.request.path, upgrade.rest) == ("/ws", b"\x81\x00")
    ignored, after = read(wish % b"h2c" + GET)
    assert isinstance(ignored, Request) and isinstance(after, Request)
    (refused,) = read(POST.replace(b"Host: x", b"Host: x\r\nConnection: Upgrade\r\nUpgrade: h2c"))
    assert isinstance(refused, Malformed)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x00\x00\x00\x2a hello", Malformed),
        (b"GET / HTTP/1.1\r\n\r\n", Malformed),
        (b"GET / HTTP/3.0\r\nHost: x\r\n\r\n", Malformed),
        (b"GET /?%ff=%ff HTTP/1.1\r\nHost: x\r\n\r\n", Malformed),
        (b"GET /?" + b"&".join(b"a=b" for _ in range(200)) + b" HTTP/1.1\r\nHost: x\r\n\r\n", Malformed),
        (POST.replace(b"3", b"x"), Malformed),
        (POST.replace(b"3", b"-3"), Malformed),
        (POST.replace(b"3", b"9" * 30), (Malformed, TooLarge)),
        (POST.replace(b": 3", b": 1001"), TooLarge),
        (POST.replace(b"Host: x", b"Host: x\r\nTransfer-Encoding: chunked"), Malformed),
        (b"GET /" + b"a" * HEAD_BYTES_MAX + b" HTTP/1.1\r\nHost: x\r\n\r\n", TooLarge),
        (
            b"GET / HTTP/1.1\r\n" + b"".join(b"h%d: x\r\n" % n for n in range(HEADERS_MAX + 1)) + b"\r\n",
            TooLarge,
        ),
        (b"GET / HTTP/1.1\r\nHost: " + b"a" * (HEAD_BYTES_MAX + 400_000), TooLarge),
    ],
)
@pytest.mark.parametrize("step", [0, 4096])
def test_what_is_wrong_is_the_last_that_is_heard(
    content: bytes, kind: type[BrokerError] | tuple[type[BrokerError], ...], step: int
) -> None:
    events = read(content, step)
    assert isinstance(events[-1], kind)
    assert sum(isinstance(event, BrokerError) for event in events) == 1


def test_chunks_are_counted_together() -> None:
    chunk = b"64\r\n" + b"x" * 100 + b"\r\n"
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    (request,) = read(head + chunk * 10 + b"0\r\n\r\n", 64)
    assert isinstance(request, Request) and len(request.body) == BODY_MAX
    (refused,) = read(head + chunk * 11 + b"0\r\n\r\n", 64)
    assert isinstance(refused, TooLarge)
