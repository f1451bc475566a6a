"""The types of Kafka's messages are those of the field tables."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from penstock.wire.kafka import API, KafkaMessage, KafkaRequest, messages
from penstock.wire.kafka.notation import read_schema

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def stubs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kafka_stubs", ROOT / "tools/kafka_stubs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stub_is_the_one_that_the_tables_give(stubs: ModuleType) -> None:
    assert stubs.STUB.read_text() == stubs.stub_text(), "run `make stubs`"


def test_every_field_has_the_type_of_its_table(stubs: ModuleType) -> None:
    text = """
  name    string? 12+ #0 =null ~
  id      int32 4-14 =-1
  topics  [Topic]?7
    raw  bytes
    uuid uuid
  leader  Leader 12+ #1
    epoch int64
  records records?
"""
    schema = read_schema("ExampleRequest", text.splitlines(), (4, 18), 12)
    lines = [
        *stubs.field_lines(schema, schema.root, ""),
        *stubs.field_lines(schema, schema.structs["Topic"], ""),
    ]
    assert lines == [
        "name: str | None = None  # v12+",
        "id: int = -1  # v4-14",
        "topics: list[ExampleRequest.Topic] | None = ...",
        "leader: ExampleRequest.Leader | None = None  # v12+",
        "records: memoryview | None = ...",
        'raw: Buffer = b""',
        "uuid: bytes = ...",
    ]


def test_requests_are_told_from_other_messages() -> None:
    for api in API.values():
        assert issubclass(getattr(messages, f"{api.name}Request"), KafkaRequest)
        response = getattr(messages, f"{api.name}Response")
        assert issubclass(response, KafkaMessage) and not issubclass(response, KafkaRequest)
        assert not hasattr(response(), "__dict__") and not hasattr(
            getattr(messages, f"{api.name}Request")(), "__dict__"
        )
