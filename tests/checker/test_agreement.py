"""Logs are compared by what is in them, not by how their segments are cut."""

from __future__ import annotations

from pathlib import Path

from checker.agreement import log_digest


def write(directory: Path, *segments: bytes) -> Path:
    directory.mkdir()
    for number, content in enumerate(segments):
        (directory / f"{number:020}.log").write_bytes(content)
    return directory


def test_the_same_bytes_in_other_segments_are_the_same_log(tmp_path: Path) -> None:
    one, two = write(tmp_path / "1", b"abc", b"def"), write(tmp_path / "2", b"abcdef")
    assert log_digest(one) == log_digest(two)


def test_a_byte_that_differs_is_seen(tmp_path: Path) -> None:
    one, two = write(tmp_path / "1", b"abc"), write(tmp_path / "2", b"abd")
    assert log_digest(one) != log_digest(two)
    assert log_digest(one) != log_digest(tmp_path / "absent")
