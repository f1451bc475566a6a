"""Requests and answers of any API as nested dicts, over a bare connection. Never negotiates, never retries."""

from __future__ import annotations

from compat.raw import RawConnection
from penstock.wire.kafka import API, ApiKey, decode_response, encode_request
from plain_messages import Plain, build_request, plain


def ask(raw: RawConnection, key: ApiKey, version: int, body: Plain) -> Plain:
    """Send one request and read its answer, each field by the name that Kafka gives it."""
    raw.go(key, body)
    raw.send_bytes(bytes(encode_request(key, version, 1, raw.client_id, build_request(key, body))))
    correlation_id, answer = decode_response(key, version, raw.receive_frame())
    assert correlation_id == 1
    return plain(answer, API[key].response.root, version)
