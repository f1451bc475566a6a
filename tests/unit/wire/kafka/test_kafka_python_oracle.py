"""Whole frames, headers included: kafka-python reads what we write, and writes the same bytes again."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from kafka.protocol.admin.topics import CreateTopicsRequest, CreateTopicsResponse
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.consumer.group import JoinGroupRequest, JoinGroupResponse
from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer.produce import ProduceRequest, ProduceResponse
from kafka.protocol.producer.transaction import InitProducerIdRequest, InitProducerIdResponse
from kafka.protocol.sasl import SaslHandshakeRequest, SaslHandshakeResponse

from kafka_samples import sample
from penstock.wire.kafka import (
    API,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)

REQUESTS = [
    ProduceRequest,
    FetchRequest,
    ListOffsetsRequest,
    ApiVersionsRequest,
    CreateTopicsRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
    InitProducerIdRequest,
    SaslHandshakeRequest,
]
RESPONSES = [
    ProduceResponse,
    FetchResponse,
    ListOffsetsResponse,
    ApiVersionsResponse,
    CreateTopicsResponse,
    FindCoordinatorResponse,
    JoinGroupResponse,
    InitProducerIdResponse,
    SaslHandshakeResponse,
]


@pytest.mark.parametrize("theirs", REQUESTS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("client_id", ["me", "", None])
def test_request_frames(theirs: Any, client_id: str | None) -> None:
    api = API[theirs.API_KEY]
    for version in range(api.version_min, min(api.version_max, theirs.max_version) + 1):
        message = sample(api.request, version, Random(f"{theirs} {version}"))
        frame = encode_request(api.key, version, 77, client_id, message)
        copy = theirs.decode(frame, version=version, header=True, framed=True)
        assert bytes(copy.encode(header=True, framed=True)) == frame
        header = decode_request_header(frame[4:])
        assert header[:4] == (api.key, version, 77, client_id)
        assert decode_request(api.key, version, frame[4:], header.body_position) == message


@pytest.mark.parametrize("theirs", RESPONSES, ids=lambda cls: cls.__name__)
def test_response_frames(theirs: Any) -> None:
    api = API[theirs.API_KEY]
    for version in range(api.version_min, min(api.version_max, theirs.max_version) + 1):
        message = sample(api.response, version, Random(f"{theirs} {version}"))
        if theirs is ApiVersionsResponse:
            message.error_code = 0  # with an error it is read as version 0, whatever was asked
        frame = b"".join(encode_response(api.key, version, 77, message))  # type: ignore[arg-type]
        copy = theirs.decode(frame, version=version, header=True, framed=True)
        assert bytes(copy.encode(header=True, framed=True)) == frame
        assert decode_response(api.key, version, frame[4:]) == (77, message)
