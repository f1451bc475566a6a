"""`penstock log`: over real files, read-only."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from log_samples import DIRECTORY, append, keyed_batch, reopen, sync
from penstock.apps.cli.main import cli
from penstock.node.runtime.disk import DiskFiles


def data_directory(root: Path) -> Path:
    log, _ = reopen(DiskFiles(root, 16))
    for number in range(12):
        append(log, keyed_batch([(b"key", b"%d" % number + b"x" * 300)], time_ms=number))
    sync(log)
    log.save_state()
    log.close()
    return root


def test_verify_says_whole_and_then_damaged(tmp_path: Path) -> None:
    root = data_directory(tmp_path)
    for path in (root, root / DIRECTORY):
        done = CliRunner().invoke(cli, ["log", "verify", str(path)])
        assert (done.exit_code, done.output) == (0, "1 log checked, no damage found\n")
    first = sorted((root / DIRECTORY).glob("*.log"))[0]
    content = bytearray(first.read_bytes())
    content[7] ^= 1
    first.write_bytes(content)
    done = CliRunner().invoke(cli, ["log", "verify", str(root), "-o", "json"])
    assert done.exit_code == 1
    assert {json.loads(line)["severity"] for line in done.output.splitlines()} == {"damaged"}
    assert first.read_bytes() == bytes(content)


def test_dump_shows_batches_and_records(tmp_path: Path) -> None:
    root = data_directory(tmp_path)
    done = CliRunner().invoke(cli, ["log", "dump", str(root), "--records", "--from", "3", "-o", "json"])
    batches = [json.loads(line) for line in done.output.splitlines()]
    assert [batch["base_offset"] for batch in batches] == list(range(3, 12))
    assert batches[0]["records"][0]["value"].startswith("3x") and batches[0]["codec"] == "none"
    done = CliRunner().invoke(cli, ["log", "dump", str(root), "--records"])
    assert (
        done.exit_code == 0 and "offsets 11..11  records 1" in done.output and "'key'  '11xxx" in done.output
    )


def test_a_directory_without_logs_is_a_usage_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["log", "verify", str(tmp_path)])
    assert done.exit_code == 2 and "No log found" in done.output


def test_read_only_files_are_enough(tmp_path: Path) -> None:
    root = data_directory(tmp_path)
    for path in (root / DIRECTORY).iterdir():
        path.chmod(0o440)
    (root / DIRECTORY).chmod(0o550)
    try:
        assert CliRunner().invoke(cli, ["log", "verify", str(root)]).exit_code == 0
    finally:
        (root / DIRECTORY).chmod(0o750)
