"""Frames: headers, unknown APIs and versions, payloads passed through, and what is refused."""

from __future__ import annotations

import struct
from inspect import getgeneratorlocals
from typing import Any

import pytest

from penstock.core.errors import Malformed, UnsupportedVersion
from penstock.core.limits import HEADER_TAGS_MAX, MESSAGE_ELEMENTS_MAX, RECORDS_COPIED_BYTES_MAX
from penstock.wire.kafka import (
    API,
    UNSUPPORTED,
    ApiKey,
    ErrorCode,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    encode_response_sliced,
    messages,
)
from penstock.wire.kafka.primitives import write_varint


class FileSlice:
    """Stands for bytes in a file: only its length is known."""

    def __init__(self, length: int) -> None:
        self.length = length


def fetched(*records: Any) -> Any:
    response = messages.FetchResponse
    partitions = [response.PartitionData(partition_index=i, records=r) for i, r in enumerate(records)]
    return response(responses=[response.FetchableTopicResponse(topic="t", partitions=partitions)])


class TestRequestHeader:
    def test_client_id_is_never_compact(self) -> None:
        frame = struct.pack(">hhih", ApiKey.METADATA, 12, 5, 2) + b"me" + b"\0" + b"body"
        assert decode_request_header(frame) == (ApiKey.METADATA, 12, 5, "me", 13)

    def test_client_id_may_be_null(self) -> None:
        frame = struct.pack(">hhih", ApiKey.METADATA, 1, 5, -1)
        assert decode_request_header(frame) == (ApiKey.METADATA, 1, 5, None, 10)

    def test_tagged_fields_are_skipped(self) -> None:
        tags = b"\x02" + b"\x00\x03abc" + b"\x81\x01\x00"
        frame = struct.pack(">hhih", ApiKey.METADATA, 12, 5, -1) + tags
        assert decode_request_header(frame).body_position == 10 + len(tags)

    @pytest.mark.parametrize("key, version", [(18, 99), (ApiKey.FETCH, 3), (999, 0), (-1, 0)])
    def test_unknown_api_or_version_still_names_itself(self, key: int, version: int) -> None:
        header = decode_request_header(struct.pack(">hhih", key, version, 5, 2) + b"me")
        assert header == (key, version, 5, "me", UNSUPPORTED)
        with pytest.raises(UnsupportedVersion):
            decode_request(key, version, b"", 0)

    @pytest.mark.parametrize(
        "frame",
        [
            b"",
            b"\0" * 9,
            struct.pack(">hhih", 3, 1, 5, 3) + b"me",
            struct.pack(">hhih", 3, 1, 5, -2),
            struct.pack(">hhih", 3, 1, 5, 1) + b"\xff",
            struct.pack(">hhih", 3, 12, 5, -1),
            struct.pack(">hhih", 3, 12, 5, -1) + b"\x01\x00\x05abc",
            struct.pack(">hhih", 3, 12, 5, -1) + b"\xff\xff\xff\xff\xff\x00",
            struct.pack(">hhih", 3, 12, 5, -1) + write_varint(HEADER_TAGS_MAX + 1) + bytes(9_999),
        ],
    )
    def test_broken_headers_are_malformed(self, frame: bytes) -> None:
        with pytest.raises(Malformed):
            decode_request_header(frame)


class TestResponseHeader:
    @pytest.mark.parametrize("version", range(5))
    def test_api_versions_never_has_tags(self, version: int) -> None:
        body = messages.ApiVersionsResponse(error_code=1)
        (frame,) = encode_response(ApiKey.API_VERSIONS, version, 9, body)
        assert bytes(frame)[4:10] == struct.pack(">ih", 9, 1)  # type: ignore[arg-type]

    def test_flexible_replies_have_empty_tags(self) -> None:
        (frame,) = encode_response(ApiKey.HEARTBEAT, 4, 9, messages.HeartbeatResponse(throttle_time_ms=3))
        assert frame == struct.pack(">iixihx", 12, 9, 3, 0)

    def test_offset_delete_is_never_flexible(self) -> None:
        assert not API[ApiKey.OFFSET_DELETE].is_flexible(0)
        assert not API[ApiKey.SASL_HANDSHAKE].is_flexible(1)

    def test_refused_api_versions_is_read_as_version_0(self) -> None:
        entry = messages.ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=4)
        refusal = messages.ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[entry])
        (frame,) = encode_response(ApiKey.API_VERSIONS, 0, 9, refusal)
        assert decode_response(ApiKey.API_VERSIONS, 4, bytes(frame)[4:]) == (9, refusal)  # type: ignore[arg-type]

    @pytest.mark.parametrize("frame", [b"", b"\0\0\0", b"\0\0\0\0"])
    def test_short_replies_are_malformed(self, frame: bytes) -> None:
        with pytest.raises(Malformed):
            decode_response(ApiKey.METADATA, 12, frame)


class TestRecords:
    def test_payloads_are_passed_through_in_place(self) -> None:
        first, second = FileSlice(10), FileSlice(70_000)
        for version in range(4, 19):
            parts = encode_response(ApiKey.FETCH, version, 1, fetched(first, b"small", second))
            assert [type(part) for part in parts] == [bytes, FileSlice, bytes, FileSlice, bytes]
            assert parts[1] is first and parts[3] is second
            whole = b"".join(bytes(p.length) if isinstance(p, FileSlice) else p for p in parts)  # type: ignore[misc]
            assert int.from_bytes(whole[:4], "big") == len(whole) - 4
            _, body = decode_response(ApiKey.FETCH, version, whole[4:])
            assert [len(p.records) for p in body.responses[0].partitions] == [10, 5, 70_000]

    @pytest.mark.parametrize("file_every", [0, 1, 7, 500], ids=lambda n: f"file-every-{n}")
    def test_slices_encode_the_same_and_leave_little_to_join(self, file_every: int) -> None:
        files = [FileSlice(i) for i in range(3_000)]
        body = fetched(
            *(files[i] if file_every and i % file_every == 0 else b"few bytes" for i in range(3_000))
        )
        held: list[int] = []
        steps = encode_response_sliced(ApiKey.FETCH, 12, 1, body)
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                assert ended.value == encode_response(ApiKey.FETCH, 12, 1, body)
                break
            held.append(len(getgeneratorlocals(steps)["parts"]))
        assert len(held) > 3
        if not file_every:
            assert held == list(range(len(held))), "each slice leaves one part"

    def test_long_record_bytes_are_not_copied(self) -> None:
        records = memoryview(bytes(RECORDS_COPIED_BYTES_MAX + 1))
        for version in range(4, 19):
            assert encode_response(ApiKey.FETCH, version, 1, fetched(records))[1] is records
            assert len(encode_response(ApiKey.FETCH, version, 1, fetched(records[1:]))) == 1

    @pytest.mark.parametrize("version", [4, 11, 12, 18])
    def test_no_records_are_empty_not_null(self, version: int) -> None:
        partition = messages.FetchResponse.PartitionData()
        topic = messages.FetchResponse.FetchableTopicResponse(partitions=[partition])
        (frame,) = encode_response(ApiKey.FETCH, version, 1, messages.FetchResponse(responses=[topic]))
        _, body = decode_response(ApiKey.FETCH, version, bytes(frame)[4:])  # type: ignore[arg-type]
        assert body.responses[0].partitions[0].records == b""

    def test_decoded_payloads_are_slices_of_the_frame(self) -> None:
        request = messages.JoinGroupRequest
        message = request(protocols=[request.JoinGroupRequestProtocol(name="range", metadata=b"abc")])
        frame = bytearray(encode_request(ApiKey.JOIN_GROUP, 0, 1, None, message)[4:])
        body = decode_request(ApiKey.JOIN_GROUP, 0, frame, 10)
        frame[-1] = ord("x")
        assert body.protocols[0].metadata == b"abx"


UNTYPED: Any = messages
"""For messages that no type checker would let pass."""


class TestOurBugs:
    @pytest.mark.parametrize(
        "key, version, body",
        [
            (ApiKey.METADATA, 9, UNTYPED.MetadataResponse(topics=None)),
            (ApiKey.METADATA, 1, UNTYPED.MetadataResponse(topics=None)),
            (ApiKey.HEARTBEAT, 4, UNTYPED.HeartbeatResponse(error_code=None)),
            (ApiKey.HEARTBEAT, 4, UNTYPED.HeartbeatResponse(error_code=1 << 15)),
            (ApiKey.SASL_AUTHENTICATE, 2, UNTYPED.SaslAuthenticateResponse(auth_bytes=None)),
            (ApiKey.FIND_COORDINATOR, 3, UNTYPED.FindCoordinatorResponse(host=None)),
            (ApiKey.FETCH, 11, UNTYPED.FetchResponse(responses=None)),
            (ApiKey.FETCH, 11, fetched(7)),
            (ApiKey.PRODUCE, 9, UNTYPED.ProduceResponse(responses=[None])),
        ],
    )
    def test_what_a_version_cannot_carry_is_an_assertion(self, key: ApiKey, version: int, body: Any) -> None:
        with pytest.raises(AssertionError):
            encode_response(key, version, 1, body)

    def test_a_uuid_has_16_bytes(self) -> None:
        body = fetched(b"")
        body.responses[0].topic_id = b"short"
        for version in range(13, 19):
            with pytest.raises(AssertionError, match="topic_id is no uuid"):
                encode_response(ApiKey.FETCH, version, 1, body)

    def test_a_field_that_the_version_lacks_must_be_ignorable_or_default(self) -> None:
        request = messages.MetadataRequest(allow_auto_topic_creation=False)
        with pytest.raises(AssertionError, match="allow_auto_topic_creation"):
            encode_request(ApiKey.METADATA, 3, 1, None, request)
        response = messages.MetadataResponse(throttle_time_ms=5)
        (frame,) = encode_response(ApiKey.METADATA, 0, 1, response)
        _, body = decode_response(ApiKey.METADATA, 0, bytes(frame)[4:])  # type: ignore[arg-type]
        assert body.throttle_time_ms == 0


class TestBounds:
    def malformed(self, key: ApiKey, version: int, body: bytes) -> str:
        with pytest.raises(Malformed) as caught:
            decode_request(key, version, body, 0)
        return str(caught.value)

    def test_counts_are_checked_against_what_remains(self) -> None:
        assert "does not fit" in self.malformed(ApiKey.METADATA, 1, struct.pack(">i", 2**31 - 1) + b"abc")
        assert "does not fit" in self.malformed(ApiKey.METADATA, 9, write_varint(2**32 - 1) + b"abc")
        assert "does not fit" in self.malformed(ApiKey.LIST_GROUPS, 4, b"\x05\x01\x01\x01")

    def test_lengths_are_checked_against_what_remains(self) -> None:
        assert "does not fit" in self.malformed(ApiKey.SASL_HANDSHAKE, 0, struct.pack(">h", 9) + b"PLAIN")
        assert "does not fit" in self.malformed(ApiKey.SASL_AUTHENTICATE, 2, b"\x09abc\0")

    def test_negative_lengths(self) -> None:
        assert "null or negative" in self.malformed(ApiKey.SASL_HANDSHAKE, 0, struct.pack(">h", -1))
        assert "null or negative" in self.malformed(ApiKey.INIT_PRODUCER_ID, 0, struct.pack(">hi", -2, 1))
        assert "null or negative" in self.malformed(ApiKey.METADATA, 1, struct.pack(">i", -2))
        assert "null or negative" in self.malformed(ApiKey.METADATA, 0, struct.pack(">i", -1))
        assert "null or negative" in self.malformed(ApiKey.LIST_GROUPS, 4, b"\0\0")

    @pytest.mark.parametrize("varint", [b"\xff\xff\xff\xff\x10", b"\xff\xff\xff\xff\xff\x01", b"\x80" * 20])
    def test_varints_of_more_than_32_bits(self, varint: bytes) -> None:
        assert "32 bits" in self.malformed(ApiKey.LIST_GROUPS, 4, varint + bytes(20))

    def test_bytes_behind_a_request_are_left_alone(self) -> None:
        """As Kafka leaves them: librdkafka sends Metadata with three bytes too many."""
        assert decode_request(ApiKey.LIST_GROUPS, 4, b"\x01\0\0", 0).states_filter == []

    def test_strings_are_utf_8(self) -> None:
        assert "UTF-8" in self.malformed(ApiKey.SASL_HANDSHAKE, 0, b"\0\x01\xff")

    def test_elements_of_all_levels_are_counted(self) -> None:
        body = write_varint(MESSAGE_ELEMENTS_MAX + 2) + bytes([1]) * (MESSAGE_ELEMENTS_MAX + 1) + b"\0"
        assert "more than 100000 elements" in self.malformed(ApiKey.LIST_GROUPS, 4, body)

    def test_unknown_tagged_fields_are_counted_and_skipped(self) -> None:
        assert decode_request(ApiKey.LIST_GROUPS, 4, b"\x01\x02\x07\x03abc\x63\x00", 0) is not None
        assert "does not fit" in self.malformed(ApiKey.LIST_GROUPS, 4, b"\x01\x05\x00\x00")
        many = MESSAGE_ELEMENTS_MAX + 1
        body = b"\x01" + write_varint(many) + bytes(2 * many)
        assert "more than 100000 elements" in self.malformed(ApiKey.LIST_GROUPS, 4, body)

    def test_a_known_tagged_field_must_fill_its_size(self) -> None:
        message = messages.FetchRequest(cluster_id="abc")
        body = encode_request(ApiKey.FETCH, 12, 1, None, message)[4 + 11 :]
        assert decode_request(ApiKey.FETCH, 12, body, 0) == message
        assert body.endswith(b"\x01\x00\x04\x04abc")
        self.malformed(ApiKey.FETCH, 12, body[:-5] + b"\x05\x04abc\0")
        self.malformed(ApiKey.FETCH, 12, body[:-5] + b"\x03\x04abc")
