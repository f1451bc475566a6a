"""Lines to records, and what is refused before a broker is asked."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from penstock.apps.cli.main import cli
from penstock.apps.cli.pub import split_lines


def test_lines() -> None:
    lines = [b"a\n", b"\n", b"b\r\n", b" c ", b"\xff\n"]
    assert [value for _, value in split_lines(lines, None, None)] == [b"a", b"", b"b", b" c ", b"\xff"]
    assert {key for key, _ in split_lines(lines, b"k", None)} == {b"k"}


def test_keys_in_lines() -> None:
    lines = [b"a:1:2\n", b"plain\n", b":empty\n"]
    assert list(split_lines(lines, None, b":")) == [(b"a", b"1:2"), (None, b"plain"), (b"", b"empty")]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--message", "x"], "Missing argument 'TOPIC'"),
        (["--topic", "t", "--message", "x", "--header", "a"], "not of the form name=value"),
        (["--topic", "t", "--message", "x", "--key-separator", ":"], "is for lines of stdin"),
        (["--topic", "t", "--key", "x", "--key-separator", ":"], "mutually exclusive"),
        (["--topic", "t", "--key-separator", ""], "must not be empty"),
        (["--topic", "t", "--key-separator", r"\q"], "is not an escape"),
        (["--topic", "t", "--partition", "-1"], "--partition"),
        (["--topic", "t", "--acks", "2"], "--acks"),
        (["--topic", "t", "--message", "x", "--bootstrap", "nowhere"], "not of the form HOST:PORT"),
    ],
)
def test_wrong_usage(arguments: list[str], part: str) -> None:
    result = CliRunner().invoke(cli, ["pub", *arguments])
    assert result.exit_code == 2
    assert part in result.output
