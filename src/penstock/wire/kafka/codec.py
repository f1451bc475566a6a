"""Frames to messages and back: headers, and the generated codec of each API and version. No I/O.

A frame excludes its four-byte size when read and includes it when written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from penstock.core.errors import Malformed, UnsupportedVersion
from penstock.core.limits import HEADER_TAGS_MAX
from penstock.wire.kafka import fast, fast_calls
from penstock.wire.kafka.api import API, ApiKey
from penstock.wire.kafka.bounds import elements_max
from penstock.wire.kafka.classes import Buffer, KafkaMessage, Part, classes_of
from penstock.wire.kafka.decoder import Decoder, SlicedDecoder, make_decoder, make_sliced_decoder
from penstock.wire.kafka.encoder import Encoder, SlicedEncoder, make_encoder, make_sliced_encoder
from penstock.wire.kafka.error_codes import ErrorCode
from penstock.wire.kafka.notation import Schema
from penstock.wire.kafka.primitives import overrun, read_varint, skip_tags, too_many, unexpected_null

UNSUPPORTED = -1
"""The body position of a request whose API or version is not supported."""


class RequestHeader(NamedTuple):
    """The header of a request. `body_position` is UNSUPPORTED for unknown APIs and versions."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_position: int


class _Reply(NamedTuple):
    """How to encode the response of one API and version."""

    shortcut: fast.Shortcut | None
    encode: Encoder
    header: Callable[[int, int], bytes]
    header_bytes: int


_REQUEST_HEADER = struct.Struct(">hhih")
_REQUEST_START = struct.Struct(">ihhih")
_RESPONSE_V0 = struct.Struct(">ii")
_RESPONSE_V1 = struct.Struct(">iix")
_CORRELATION = struct.Struct(">i")
_ERROR = struct.Struct(">h")
_SIZE_BYTES = 4
_START_BYTES = _REQUEST_START.size - _SIZE_BYTES
_FLEXIBLE_START_BYTES = _START_BYTES + 1
"""With the count of tagged fields, which are none."""
_new = tuple.__new__
_BUFFERS = (bytes, bytearray, memoryview)

_VERSIONS = {int(api.key): (api.version_min, api.version_max, api.flexible_from) for api in API.values()}
_UNKNOWN_API = (0, -1, 0)

_request_decoders: dict[tuple[int, int], Decoder] = {}
_request_encoders: dict[tuple[int, int], Encoder] = {}
_response_decoders: dict[tuple[int, int], Decoder] = {}
_replies: dict[tuple[int, int], _Reply] = {}
_sliced_decoders: dict[tuple[int, int], SlicedDecoder] = {}
_sliced_encoders: dict[tuple[int, int], SlicedEncoder] = {}


def decode_request_header(frame: Buffer) -> RequestHeader:
    """Decode a request header. For an unknown API or version only the body position is missing."""
    if type(frame) is not memoryview:
        frame = memoryview(frame)
    try:
        api_key, version, correlation_id, size = _REQUEST_HEADER.unpack_from(frame)
        position = 10
        client_id = None
        if size >= 0:
            position += size
            if position > len(frame):
                raise overrun("client id", size, 10)
            client_id = str(frame[10:position], "utf-8")
        elif size != -1:
            raise unexpected_null("client id", 10)
        low, high, flexible_from = _VERSIONS.get(api_key, _UNKNOWN_API)
        if not low <= version <= high:
            position = UNSUPPORTED
        elif version >= flexible_from:
            position = _after_tags(frame, position)
    except (struct.error, IndexError):
        raise Malformed(f"a frame of {len(frame)} bytes has a truncated header") from None
    except UnicodeDecodeError as error:
        raise Malformed(f"client id: not UTF-8: {error}") from None
    return _new(RequestHeader, (api_key, version, correlation_id, client_id, position))


def decode_request(api_key: int, version: int, frame: Buffer, position: int) -> Any:
    """Decode the message from `position` to the end of the frame. Its payloads are slices of the frame."""
    decode = _request_decoders.get((api_key, version))
    if decode is None:
        schema = _schema(api_key, version, "request")
        decode = make_decoder(schema, version, classes_of(schema), elements_max(api_key))
        if api_key == ApiKey.PRODUCE:
            decode = fast.make_produce_decoder(version, classes_of(schema), decode)
        _request_decoders[api_key, version] = decode
    return decode(frame, position)


def decode_request_sliced(
    api_key: int, version: int, frame: Buffer, position: int
) -> Generator[int, None, Any]:
    """The same in slices: yields the cost periodically, and returns the message."""
    decode = _sliced_decoders.get((api_key, version))
    if decode is None:
        schema = _schema(api_key, version, "request")
        decode = make_sliced_decoder(schema, version, classes_of(schema), elements_max(api_key))
        _sliced_decoders[api_key, version] = decode
    return decode(frame, position)


def encode_response(api_key: int, version: int, correlation_id: int, body: KafkaMessage) -> list[Part]:
    """Encode a response with size and header: a single `bytes`, unless it carries records.

    Stored payloads, and record data longer than RECORDS_COPIED_BYTES_MAX, are separate elements, uncopied, with bytes
    (maybe empty) before and after each.
    """
    reply = _replies.get((api_key, version))
    if reply is None:
        reply = _replies[api_key, version] = _make_reply(api_key, version)
    shortcut, encode, _, _ = reply
    if shortcut is not None:
        try:
            whole = shortcut(correlation_id, body)
        except (AttributeError, IndexError, TypeError, struct.error):
            whole = None  # the generated encoder raises the precise error
        if whole is not None:
            return whole
    parts: list[Any] = []
    cuts: list[int] = []
    encode(body, parts, cuts)
    return _assemble(reply, correlation_id, parts, cuts)


def encode_response_sliced(
    api_key: int, version: int, correlation_id: int, body: KafkaMessage
) -> Generator[int, None, list[Part]]:
    """The same in slices: yields the cost periodically, and returns the response."""
    encode = _sliced_encoders.get((api_key, version))
    if encode is None:
        encode = make_sliced_encoder(_schema(api_key, version, "response"), version)
        _sliced_encoders[api_key, version] = encode
    reply = _replies.get((api_key, version))
    if reply is None:
        reply = _replies[api_key, version] = _make_reply(api_key, version)
    parts: list[Any] = []
    cuts: list[int] = []
    joined = 0
    for cost in encode(body, parts, cuts):
        # Each slice joins its own parts: joining everything at the end would block the event loop.
        joined = max(joined, cuts[-1] + 1 if cuts else 0)
        if len(parts) > joined:
            parts[joined:] = [b"".join(parts[joined:])]
            joined += 1
        yield cost
    return _assemble(reply, correlation_id, parts, cuts)


def _assemble(reply: _Reply, correlation_id: int, parts: list[Any], cuts: list[int]) -> list[Part]:
    """Join the parts between the payloads, after a header with the total size."""
    _, _, header, header_bytes = reply
    if not cuts:
        content = b"".join(parts)
        return [header(len(content) + header_bytes, correlation_id) + content]
    out: list[Any] = []
    total = header_bytes
    start = 0
    for cut in cuts:
        before, payload = b"".join(parts[start:cut]), parts[cut]
        total += len(before) + (len(payload) if isinstance(payload, _BUFFERS) else payload.length)
        out += (before, payload)
        start = cut + 1
    after = b"".join(parts[start:])
    out[0] = header(total + len(after), correlation_id) + out[0]
    out.append(after)
    return out


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, body: KafkaMessage
) -> bytes:
    """Encode a request with size and header."""
    return b"".join(encode_request_parts(api_key, version, correlation_id, client_id, body))


def encode_request_parts(
    api_key: int, version: int, correlation_id: int, client_id: str | None, body: KafkaMessage
) -> list[Buffer]:
    """The same in pieces: record data longer than RECORDS_COPIED_BYTES_MAX is not copied."""
    encode = _request_encoders.get((api_key, version))
    if encode is None:
        encode = make_encoder(_schema(api_key, version, "request"), version)
        if api_key == ApiKey.PRODUCE and version >= fast_calls.BY_ID_FROM:
            encode = fast_calls.make_produce_encoder(encode)
        _request_encoders[api_key, version] = encode
    parts: list[Any] = []
    cuts: list[int] = []
    encode(body, parts, cuts)
    client = b"" if client_id is None else client_id.encode()
    if version >= _VERSIONS[api_key][2]:
        start, tail = _FLEXIBLE_START_BYTES, b"\0"
    else:
        start, tail = _START_BYTES, b""
    client_size = -1 if client_id is None else len(client)
    if not cuts:
        content = b"".join(parts)
        size = start + len(client) + len(content)
        return [
            b"".join(
                (
                    _REQUEST_START.pack(size, api_key, version, correlation_id, client_size),
                    client,
                    tail,
                    content,
                )
            )
        ]
    size = start + len(client) + sum(map(len, parts))
    parts[:0] = (_REQUEST_START.pack(size, api_key, version, correlation_id, client_size), client, tail)
    pieces: list[Buffer] = []
    before = 0
    for cut in cuts:
        at = cut + 3  # the header stands in front
        pieces += (b"".join(parts[before:at]), parts[at])
        before = at + 1
    if before < len(parts):
        pieces.append(b"".join(parts[before:]))
    return pieces


def decode_response(api_key: int, version: int, frame: Buffer) -> tuple[int, Any]:
    """Decode the correlation id and message of a response. ApiVersions rejects a version with a version 0 response."""
    if type(frame) is not memoryview:
        frame = memoryview(frame)
    try:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        position = _CORRELATION.size
        if api_key == ApiKey.API_VERSIONS:
            (error_code,) = _ERROR.unpack_from(frame, position)
            version = 0 if error_code == ErrorCode.UNSUPPORTED_VERSION else version
        elif _response_is_tagged(api_key, version):
            position = _after_tags(frame, position)
    except (struct.error, IndexError):
        raise Malformed(f"a frame of {len(frame)} bytes has a truncated header") from None
    decode = _response_decoders.get((api_key, version))
    if decode is None:
        schema = _schema(api_key, version, "response")
        decode = make_decoder(schema, version, classes_of(schema))
        if api_key == ApiKey.PRODUCE and version >= fast_calls.BY_ID_FROM:
            decode = fast_calls.make_produced_decoder(classes_of(schema), decode)
        _response_decoders[api_key, version] = decode
    return correlation_id, decode(frame, position)


def _schema(api_key: int, version: int, side: str) -> Schema:
    api = API.get(api_key)
    if api is None or not api.speaks(version):
        raise UnsupportedVersion(f"API {api_key} version {version} is not supported")
    return api.request if side == "request" else api.response


def _response_is_tagged(api_key: int, version: int) -> bool:
    """Whether the header has tagged fields. Never for ApiVersions: its client may not know our versions yet."""
    return api_key != ApiKey.API_VERSIONS and version >= _VERSIONS.get(api_key, _UNKNOWN_API)[2]


def _make_reply(api_key: int, version: int) -> _Reply:
    schema = _schema(api_key, version, "response")
    encode = make_encoder(schema, version)
    header = _RESPONSE_V1 if _response_is_tagged(api_key, version) else _RESPONSE_V0
    return _Reply(fast.shortcut_of(api_key, version), encode, header.pack, header.size - _SIZE_BYTES)


def _after_tags(frame: memoryview, position: int) -> int:
    """Skip the tagged fields of a header."""
    count, position = read_varint(frame, position)
    if count:
        if count > HEADER_TAGS_MAX:
            raise too_many("header", position, HEADER_TAGS_MAX)
        position = skip_tags(frame, position, count)
    return position
