"""How records are shown: filters, decoded values, fields."""

from __future__ import annotations

import io
import json
from pathlib import Path

import click
import pytest
import yaml

from penstock.apps.cli.field_path import parse_path
from penstock.apps.cli.formats import RecordView
from penstock.apps.cli.record_show import RecordShow, grep_condition, make_show
from penstock.client.serializers import Avro

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "raw", "type": "bytes"}],
}


def record(
    value: bytes | None, *, key: bytes | None = None, headers: tuple[tuple[str, bytes], ...] = ()
) -> RecordView:
    return RecordView("orders", 0, 7, 1_000, key, value, headers)


def test_values_are_shown_as_they_are() -> None:
    assert RecordShow().show(record(b"\xff\x00")) == b"\xff\x00\n"


def test_a_field_is_text_or_json() -> None:
    show = RecordShow(path=parse_path(".a"))
    assert show.show(record(b'{"a": "x"}')) == b"x\n"
    assert show.show(record(b'{"a": {"b": [1, null]}}')) == b'{"b": [1, null]}\n'
    assert show.show(record(b"{}")) == b"null\n"
    assert show.show(record(None)) == b"\n"
    every = RecordShow(path=parse_path(".a[]"))
    assert every.show(record(b'{"a": [1, "x"]}')) == b"1\nx\n"
    assert every.show(record(b'{"a": []}')) is None


def test_a_field_is_part_of_json_and_yaml() -> None:
    shown = RecordShow(output="json", path=parse_path(".a")).show(record(b'{"a": {"b": 1}}'))
    assert shown is not None and json.loads(shown)["value"] == {"b": 1}
    shown = RecordShow(output="yaml", path=parse_path(".a[]")).show(record(b'{"a": [1, 2]}'))
    assert shown is not None and shown.startswith(b"---\n") and yaml.safe_load(shown)["value"] == [1, 2]


def test_records_without_json_are_skipped_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    show = RecordShow(path=parse_path(".a"))
    for _ in range(3):
        assert show.show(record(b"plain")) is None
    show.ended()
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("orders partition 0 offset 7 skipped: the value is not JSON")
    assert told[1:] == ["3 records skipped, because they could not be decoded."]


def test_pretty_indents_json_and_leaves_text() -> None:
    show = RecordShow(is_pretty=True)
    assert show.show(record(b'{"a":1}')) == b'{\n  "a": 1\n}\n'
    assert show.show(record(b"plain")) == b"plain\n"


def test_pretty_on_a_terminal_is_coloured_and_harmless() -> None:
    show = RecordShow(is_pretty=True, for_terminal=True, is_coloured=True)
    shown = show.show(record(json.dumps({"a": "\x9b31m\x1b[2J"}, ensure_ascii=False).encode()))
    assert shown is not None
    text = shown.decode()
    assert "\x1b[36m" in text and "\x1b[2J" not in text and "\x9b" not in text
    assert show.show(record(b"\x1b[2J")) == b"\\x1b[2J\n"


def avro_value(value: dict[str, object]) -> bytes:
    return Avro(SCHEMA).encode(value, "")


def test_avro_with_and_without_the_header_of_a_registry(capsys: pytest.CaptureFixture[str]) -> None:
    show = RecordShow(avro=Avro(SCHEMA))
    data = avro_value({"id": 5, "raw": b"x"})
    for value in (data, b"\0\0\0\0\x09" + data):
        shown = show.show(record(value))
        assert shown is not None and json.loads(shown) == {"id": 5, "raw": "x"}
    assert show.show(record(b"\x01")) is None
    assert "does not match the Avro schema" in capsys.readouterr().err


def test_grep_looks_at_key_value_and_headers() -> None:
    matches = grep_condition("al.ce")
    assert matches(record(b"hi alice")) and matches(record(b"", key=b"alice"))
    assert matches(record(None, headers=(("h", b"al-ce"),)))
    assert not matches(record(b"bob")) and not matches(record(None))
    assert matches(record(b"\xff\xfealice"))


def test_a_grep_that_never_ends_elsewhere_ends() -> None:
    assert not grep_condition("(a+)+$")(record(b"a" * 50_000 + b"b"))


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"output": "json", "template": "%v"}, "mutually exclusive"),
        ({"output": "yaml", "template": "%v"}, "mutually exclusive"),
        ({"output": "table", "path": "a"}, "is not a path"),
        ({"output": "table", "grep": "["}, "not a regular expression"),
        ({"output": "table", "template": "%q"}, "unknown token"),
    ],
)
def test_wrong_options(options: dict[str, str], part: str) -> None:
    with pytest.raises(click.UsageError, match=part):
        make_show(**options)  # type: ignore[arg-type]


def test_the_schema_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(SCHEMA))
    show = make_show(output="json", avro=file)
    shown = show.show(record(avro_value({"id": 1, "raw": b"\xff"})))
    assert shown is not None and json.load(io.BytesIO(shown))["value"] == {"id": 1, "raw": "\\xff"}
