"""Byte for byte and value for value with kio, a Kafka codec generated from Kafka's own definitions."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import io
import uuid
from random import Random
from typing import Any

import pytest
from kio.index import UnknownEntity, load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from kafka_samples import sample
from penstock.wire.kafka import API, Api, decode_request, decode_response, encode_request, encode_response
from penstock.wire.kafka.notation import Schema, Struct

OWN_FROM = 15_000
"""First number of a call that is not Kafka's."""
SAMPLES = 8
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)


def kio_class(api: Api, version: int, side: EntityType) -> Any:
    """kio's class for a message, or None if it does not know that version."""
    try:
        module = load_payload_module(api.key, version, side)
    except UnknownEntity:
        return None
    return getattr(module, f"{api.name}{side.name.capitalize()}")


def plain(value: Any) -> Any:
    """A value of kio's as we write it."""
    match value:
        case enum.Enum():
            return value.value
        case datetime.timedelta():
            return value // MILLISECOND
        case datetime.datetime():
            return (value - EPOCH) // MILLISECOND
        case uuid.UUID():
            return value.bytes
        case tuple():
            return [plain(item) for item in value]
    return value


def assert_same(ours: Any, theirs: Any, struct: Struct, version: int) -> None:
    """Field by field, in the order of the definition."""
    present = [field for field in struct.fields if field.present(version)]
    fields = dataclasses.fields(theirs)
    assert len(present) == len(fields), struct.name
    for mine, field in zip(present, fields, strict=True):
        assert mine.name.removesuffix("_ms") == field.name.removesuffix("_ms")
        value, other = getattr(ours, mine.name), getattr(theirs, field.name)
        if mine.struct is None:
            assert value == _without_absent(plain(other), value), f"{struct.name}.{mine.name}"
        elif mine.is_array:
            assert (value is None) == (other is None)
            for item, twin in zip(value or (), other or (), strict=True):
                assert_same(item, twin, mine.struct, version)
        elif value is not None:
            assert_same(value, other, mine.struct, version)


def _without_absent(theirs: Any, ours: Any) -> Any:
    """kio reads a time of -1 as None, and the zero uuid too."""
    if theirs is None and ours in (-1, bytes(16)):
        return ours
    if isinstance(theirs, list) and isinstance(ours, list):
        return [_without_absent(item, mine) for item, mine in zip(theirs, ours, strict=True)]
    return theirs


@pytest.mark.parametrize("side", [EntityType.request, EntityType.response], ids=lambda side: side.name)
@pytest.mark.parametrize("api", [one for one in API.values() if one.key < OWN_FROM], ids=lambda api: api.name)
def test_same_bytes_and_values_as_kio(api: Api, side: EntityType) -> None:
    schema: Schema = getattr(api, side.name)
    compared = 0
    for version in range(api.version_min, api.version_max + 1):
        theirs = kio_class(api, version, side)
        if theirs is None:
            continue
        read, write = entity_reader(theirs), entity_writer(theirs)
        for seed in range(SAMPLES):
            message = sample(schema, version, Random(f"{schema.name} {version} {seed}"))
            body = encode_body(api, version, side, message)
            entity, used = read(body, 0)
            assert used == len(body)
            assert_same(message, entity, schema.root, version)
            buffer = io.BytesIO()
            write(buffer, entity)
            assert buffer.getvalue() == body
            assert decode_body(api, version, side, buffer.getvalue()) == message
            compared += 1
    assert compared > 0


def encode_body(api: Api, version: int, side: EntityType, message: Any) -> bytes:
    if side is EntityType.request:
        frame = encode_request(api.key, version, 1, None, message)
        return frame[4 + 10 + api.is_flexible(version) :]
    frame = b"".join(encode_response(api.key, version, 1, message))  # type: ignore[arg-type]
    return frame[4 + header_bytes(api, version) :]


def decode_body(api: Api, version: int, side: EntityType, body: bytes) -> Any:
    if side is EntityType.request:
        return decode_request(api.key, version, body, 0)
    return decode_response(api.key, version, bytes(header_bytes(api, version)) + body)[1]


def header_bytes(api: Api, version: int) -> int:
    return 4 + (api.is_flexible(version) and api.name != "ApiVersions")
