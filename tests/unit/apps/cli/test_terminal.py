"""Nothing that a client chose controls the terminal of whoever looks at it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.apps.cli import terminal
from penstock.apps.cli.failures import ObjectNotFound
from penstock.apps.cli.formats import RecordView, compile_template, json_line
from penstock.apps.cli.tables import show_table
from penstock.apps.cli.terminal import say

EVIL = "evil\x1b[2J\x9b31m\x07"
ESCAPED = r"evil\x1b[2J\x9b31m\x07"
OWN_WAYS = {"terminal.py", "banner.py", "completion.py", "bench.py"}
"""Modules that print only what the user or this program chose."""


def test_text_is_escaped_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"{EVIL}\n{EVIL}")
    say(EVIL, err=True)
    printed = capsys.readouterr()
    assert printed.out == f"{ESCAPED}\n{ESCAPED}\n" and printed.err == f"{ESCAPED}\n"


def test_tables_are_escaped_in_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    show_table((EVIL, "b"), [(EVIL, "[bold]x[/bold]")], title=EVIL)
    printed = capsys.readouterr().out
    assert printed.count(ESCAPED) == 3 and "[bold]x[/bold]" in printed
    assert "\x1b" not in printed and "\x9b" not in printed


def test_failures_are_escaped() -> None:
    assert ObjectNotFound(f"no {EVIL}").message == f"no {ESCAPED}"


def test_records_are_escaped_for_a_terminal_and_exact_elsewhere() -> None:
    record = RecordView("t", 0, 0, 0, EVIL.encode(), EVIL.encode(), ((EVIL, EVIL.encode()),))
    on_terminal = compile_template("%k %v %h", for_terminal=True)(record).decode()
    assert on_terminal == f"{ESCAPED} {ESCAPED} {ESCAPED}={ESCAPED}"
    assert compile_template("%k%h")(record) == f"{EVIL}{EVIL}={EVIL}".encode()


def test_json_is_exact_and_harmless_at_once() -> None:
    line = json_line(RecordView("t", 0, 0, 0, EVIL.encode(), "ü".encode(), ((EVIL, None),))).decode()
    assert line.strip("\n").isprintable() and "ü" in line
    found = json.loads(line)
    assert found["key"] == EVIL and found["headers"][0]["name"] == EVIL


def test_commands_print_in_no_other_way() -> None:
    home = Path(terminal.__file__).parent
    found = {
        path.name
        for path in home.glob("*.py")
        if "click.echo(" in path.read_text("utf-8") and not path.name.startswith("pipeline")
    }
    assert found <= OWN_WAYS
