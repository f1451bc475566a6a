"""Templates and JSON lines of `sub`."""

from __future__ import annotations

import json

import pytest

from penstock.apps.cli.formats import RecordView, compile_template, json_line, unescape

RECORD = RecordView("orders", 3, 42, 1_700_000_000_000, b"k", b"\xffv\n", (("a", b"1"), ("a", None)))


@pytest.mark.parametrize(
    ("template", "line"),
    [
        (r"%t %p %o %k %T %s\n", b"orders 3 42 k 1700000000000 3\n"),
        ("%v", b"\xffv\n"),
        ("%v{hex}|%k{base64}", b"ff760a|aw=="),
        ("%h", b"a=1,a="),
        (r"100%% \\ \t\r\0", b"100% \\ \t\r\x00"),
        ("größe", "größe".encode()),
        ("{hex}", b"{hex}"),
        ("", b""),
    ],
)
def test_template(template: str, line: bytes) -> None:
    assert compile_template(template)(RECORD) == line


def test_nothing_is_written_for_null() -> None:
    empty = RECORD._replace(key=None, value=None, headers=())
    assert compile_template("[%k|%v|%h|%s|%v{hex}]")(empty) == b"[|||0|]"


@pytest.mark.parametrize("template", ["%q", r"\q", "%v{rot13}", "%t{hex}", "%h{hex}", "%o{hex}"])
def test_refused(template: str) -> None:
    with pytest.raises(ValueError, match="allowed"):
        compile_template(template)


def test_a_terminal_is_not_steered_by_records() -> None:
    evil = RECORD._replace(key=b"\x1b[2J", value="größe\r".encode() + b"\xff", headers=(("h", b"\x07"),))
    line = compile_template(r"%k %v %h", for_terminal=True)(evil)
    assert line == "\\x1b[2J größe\\r\\xff h=\\x07".encode()


def test_json() -> None:
    line = json_line(RECORD)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp_ms": 1_700_000_000_000,
        "key": "k",
        "value_base64": "/3YK",
        "headers": [{"name": "a", "value": "1"}, {"name": "a", "value": None}],
    }


def test_unescape() -> None:
    assert unescape(r"\t") == "\t"
    assert unescape("%k:") == "%k:"
    with pytest.raises(ValueError):
        unescape(r"\q")
