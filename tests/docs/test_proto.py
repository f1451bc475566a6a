"""The generated code of the gRPC services is that of proto/, and its numbers are those that clients rely on."""

from __future__ import annotations

import subprocess
from pathlib import Path

from penstock.v1 import consumer_pb2, message_pb2, producer_pb2

ROOT = Path(__file__).resolve().parents[2]


def test_generated_code_is_up_to_date(tmp_path: Path) -> None:
    subprocess.run([ROOT / "tools" / "proto", tmp_path], check=True)
    fresh = {one.name: one.read_text() for one in (tmp_path / "penstock" / "v1").iterdir()}
    committed = {
        one.name: one.read_text()
        for one in (ROOT / "src" / "penstock" / "v1").glob("*_pb2*")
        if one.is_file()
    }
    assert committed == fresh, "run: make proto"


def test_field_numbers_are_stable() -> None:
    def numbers(message: type) -> dict[str, int]:
        return {one.name: one.number for one in message.DESCRIPTOR.fields}  # type: ignore[attr-defined]

    assert list(numbers(message_pb2.Message).items())[:6] == [
        ("key", 1),
        ("value", 2),
        ("timestamp", 3),
        ("headers", 4),
        ("partition", 5),
        ("offset", 6),
    ]
    assert list(numbers(producer_pb2.ProduceRequest).items())[:3] == [
        ("topic", 1),
        ("messages", 2),
        ("ack_level", 3),
    ]
    assert list(numbers(consumer_pb2.FetchRequest).items())[:4] == [
        ("topic", 1),
        ("partition", 2),
        ("offset", 3),
        ("max_bytes", 4),
    ]


def test_every_call_is_in_the_page() -> None:
    page = (ROOT / "docs" / "grpc.md").read_text("utf-8")
    files = (producer_pb2, consumer_pb2)
    calls = [
        f"{service.name}.{method.name}"
        for file in files
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ]
    assert [call for call in calls if f"`{call}`" not in page] == []
