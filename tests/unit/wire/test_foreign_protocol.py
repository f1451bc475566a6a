"""Other protocols by their first bytes, as a length and as a line."""

from __future__ import annotations

import pytest

from penstock.core.errors import ForeignProtocol, TooLarge
from penstock.node.connections.framing import UNKNOWN, LengthPrefixed, LengthPrefixedOrHttp2
from penstock.wire.foreign_protocol import HTTP2_PREFACE, HTTP_ANSWER, foreign_line
from penstock.wire.queue.frames import frame_bytes

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PRI")
LARGEST = 2**31 - 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bytes_max", [1_000, LARGEST])
def test_a_request_line_is_no_length(method: str, bytes_max: int) -> None:
    start = f"{method} / HTTP/1.1".encode()
    with pytest.raises(ForeignProtocol, match="http_port") as framed:
        LengthPrefixed().size(bytearray(start), 0, len(start), bytes_max)
    with pytest.raises(ForeignProtocol) as queued:
        frame_bytes(start, 0, bytes_max)
    assert framed.value.answer == queued.value.answer == HTTP_ANSWER


@pytest.mark.parametrize("version", range(5))
def test_a_tls_handshake_is_no_length(version: int) -> None:
    start = bytes((0x16, 3, version, 1, 0))
    with pytest.raises(ForeignProtocol, match="PLAINTEXT") as told:
        LengthPrefixed().size(bytearray(start), 0, len(start), LARGEST)
    assert not told.value.answer


def test_grpc_clients_are_told_where_their_services_are() -> None:
    with pytest.raises(ForeignProtocol, match=r"producer or consumer service.*grpc_relay"):
        LengthPrefixed().size(bytearray(HTTP2_PREFACE), 0, len(HTTP2_PREFACE), LARGEST)
    told = foreign_line(b"PRI * HTTP/2.0\r")
    assert told is not None and "grpc_relay" in str(told)


def test_the_preface_of_http2_can_count_as_a_frame() -> None:
    size = LengthPrefixedOrHttp2().size
    for count in range(len(HTTP2_PREFACE)):
        assert size(bytearray(HTTP2_PREFACE), 0, count, LARGEST) == UNKNOWN
    behind = bytearray(b"xx" + HTTP2_PREFACE + b"more")
    assert size(behind, 2, len(behind), 1_000) == len(HTTP2_PREFACE)
    for other in (b"PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n", b"PRI X", b"GET / HTTP/1.1"):
        with pytest.raises(ForeignProtocol):
            size(bytearray(other), 0, len(other), LARGEST)


def test_other_large_lengths_are_what_they_were() -> None:
    for length in (0x16030000 - 1, 0x16040000, 0x7FFFFFFF):
        raw = bytearray(length.to_bytes(4, "big"))
        assert LengthPrefixed().size(raw, 0, 4, LARGEST) == length + 4
        assert frame_bytes(raw, 0, LARGEST) == length
        with pytest.raises(TooLarge):
            LengthPrefixed().size(raw, 0, 4, 1_000)


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1", b"POST /a?b=c%20d HTTP/1.0\r", b"M-SEARCH * HTTP/1.1"])
def test_a_request_line_is_known_as_one(line: bytes) -> None:
    assert foreign_line(line) is not None


@pytest.mark.parametrize("line", [b"", b"FETCH orders 0", b"PUB HTTP/1.1 3", b"GET / FTP/1.1", b" HTTP/1.1"])
def test_other_lines_are_not(line: bytes) -> None:
    assert foreign_line(line) is None
