"""The token's file: private, new at every start, checked when it is read."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from penstock.apps.control.console_token import TOKEN_FILE, TokenError, is_same_token, make_token, read_token


def test_a_new_token_at_every_start(tmp_path: Path) -> None:
    path = tmp_path / TOKEN_FILE
    first = make_token(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_token(path) == first
    (tmp_path / f"{TOKEN_FILE}.new").write_text("left behind", encoding="ascii")
    second = make_token(tmp_path)
    assert read_token(path) == second != first
    assert (
        is_same_token(second, second) and not is_same_token(first, second) and not is_same_token("ü", second)
    )
    assert [one.name for one in tmp_path.iterdir()] == [TOKEN_FILE]


def test_files_that_hold_no_token(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_token(tmp_path / TOKEN_FILE)
    with pytest.raises(TokenError, match="Cannot read"):
        read_token(tmp_path / TOKEN_FILE / "below" if make_token(tmp_path) else tmp_path)
    (tmp_path / TOKEN_FILE).write_bytes(b"\xff" * 64)
    with pytest.raises(TokenError, match="does not contain a token"):
        read_token(tmp_path / TOKEN_FILE)
