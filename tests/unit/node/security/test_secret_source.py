"""Secrets from files and the environment; never from a setting itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import InvalidConfig
from penstock.node.security.private_file import write_private
from penstock.node.security.secret_source import load_secret


def test_a_secret_in_a_file(tmp_path: Path) -> None:
    write_private(tmp_path / "password", b"open sesame\n")
    secret = load_secret(f"file:{tmp_path / 'password'}", "password", {})
    assert secret.reveal_text() == "open sesame"


@pytest.mark.parametrize("content", [b"secret", b"secret\n", b"secret\r\n"])
def test_one_line_break_at_the_end_is_not_part_of_it(tmp_path: Path, content: bytes) -> None:
    write_private(tmp_path / "password", content)
    assert load_secret(f"file:{tmp_path / 'password'}", "password", {}).reveal() == b"secret"


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "is empty"), (b"\n", "is empty"), (b"a\nb", "one line"), (b"a\0b", "one line")],
)
def test_other_contents_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    write_private(tmp_path / "password", content)
    with pytest.raises(InvalidConfig, match=f"password: .*{words}"):
        load_secret(f"file:{tmp_path / 'password'}", "password", {})


def test_the_mode_is_checked(tmp_path: Path) -> None:
    write_private(tmp_path / "password", b"secret")
    (tmp_path / "password").chmod(0o644)
    with pytest.raises(InvalidConfig, match="chmod 600"):
        load_secret(f"file:{tmp_path / 'password'}", "password", {})


def test_a_secret_in_the_environment() -> None:
    assert load_secret("env:TOKEN", "token", {"TOKEN": "abc"}).reveal() == b"abc"
    for environment in ({}, {"TOKEN": ""}):
        with pytest.raises(InvalidConfig, match="token: the environment variable TOKEN is not set or empty"):
            load_secret("env:TOKEN", "token", environment)


def test_a_secret_itself_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidConfig, match="expected file:PATH or env:NAME") as raised:
        load_secret("hunter2", "password", {})
    assert "hunter2" not in str(raised.value)
