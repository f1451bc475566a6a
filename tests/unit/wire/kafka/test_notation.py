"""The notation and the tables written in it."""

from __future__ import annotations

import pytest

from penstock.wire.kafka import API, ApiKey, ErrorCode, messages
from penstock.wire.kafka.decoder import struct_bytes_min
from penstock.wire.kafka.notation import FIXED, NEVER, VARIABLE, read_schema

TEXT = """
  cluster_id string? 12+ #0 =null ~
  replica_id int32 4-14 =-1
  topics     [Topic]?7
    name  string 4
    other Shared
      flag bool =true
  again      Shared
"""


def test_a_field_line_says_everything() -> None:
    schema = read_schema("Example", TEXT.splitlines(), (4, 18), 12)
    cluster, replica, topics, again = schema.root.fields
    assert cluster == ("cluster_id", "string", False, None, 12, NEVER, 0, 0, None, True)
    assert replica[4:] == (4, 14, NEVER, None, -1, False)
    assert topics.is_array and topics.null_from == 7 and topics.struct is schema.structs["Topic"]
    name, other = schema.structs["Topic"].fields
    assert (name.version_min, name.version_max) == (4, 4)
    assert other.struct is again.struct is schema.structs["Shared"]
    assert [field.default for field in schema.structs["Shared"].fields] == [True]


@pytest.mark.parametrize("line", ["  name", "name string", "  name string 4..5", "  name [string =1"])
def test_a_wrong_line_is_our_bug(line: str) -> None:
    with pytest.raises(AssertionError, match="not a field"):
        read_schema("Example", [line], (0, 1), 0)


@pytest.mark.parametrize("api", API.values(), ids=lambda api: api.name)
def test_tables_are_sound(api: object) -> None:
    for schema in (api.request, api.response):  # type: ignore[attr-defined]
        names = [field.name for field in schema.root.fields]
        assert len(names) == len(set(names))
        for field in schema.fields():
            assert field.type in FIXED or field.type in VARIABLE or field.struct is not None
            assert field.struct is None or field.struct.fields
            assert field.tag is None or field.version_min >= schema.flexible_from
            assert field.default is not None or field.null_from <= max(field.version_min, schema.version_min)
        for version in range(schema.version_min, schema.version_max + 1):
            for struct in schema.structs.values():
                present = any(field.present(version) for field in struct.fields)
                assert struct_bytes_min(struct, version, version >= schema.flexible_from) > 0 or not present


def test_a_reply_holds_no_null_array_by_default() -> None:
    for api in API.values():
        for field in api.response.fields():
            assert not (field.is_array and field.default is None), f"{api.name} {field.name}"


def test_all_numbers_are_named() -> None:
    assert [key.value for key in ApiKey] == [*range(93), 15_000, 15_001, 15_002]
    assert [code.value for code in ErrorCode] == list(range(-1, 134))
    for api in API.values():
        assert api.key.name.replace("_", "") == api.name.upper()


def test_classes_are_made_once_and_print_their_fields() -> None:
    first = messages.HeartbeatResponse(error_code=27)
    assert type(first) is messages.HeartbeatResponse
    assert repr(first) == "HeartbeatResponse(throttle_time_ms=0, error_code=27)"
    assert first == messages.HeartbeatResponse(error_code=27) != messages.HeartbeatResponse()
    assert first != messages.LeaveGroupResponse(error_code=27)
    topic = messages.ProduceRequest.TopicProduceData
    assert topic.__qualname__ == "ProduceRequest.TopicProduceData"
    assert topic().partition_data is not topic().partition_data
    assert "ProduceRequest" in dir(messages)
    with pytest.raises(AttributeError):
        _ = messages.NoSuchRequest  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        messages.HeartbeatResponse(no_such_field=1)  # type: ignore[call-arg]
