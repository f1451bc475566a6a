"""Processes of an earlier coordinator: which are found, which may go on, and how the others are stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.apps.control.earlier_run import (
    EarlierProcess,
    adoption_obstacle,
    find_processes,
    lock_holder,
    read_ready,
    stop_processes,
)
from penstock.node.runtime.disk import DirectoryLock

COMMAND = ["python", "-m", "penstock", "start", "--port=9092", "--ready-file=/d/run/broker-1.json"]
FOUND = EarlierProcess("broker-1", 7, tuple(COMMAND))
READY = {"pid": 7, "port": 9092}


@pytest.mark.parametrize(
    ("ready", "commands", "holder", "obstacle"),
    [
        (READY, [COMMAND], "7", ""),
        (READY, [["other"], COMMAND], "7", ""),
        (READY, [COMMAND], None, ""),
        ({}, [COMMAND], "7", "it is not ready"),
        ({"pid": 8}, [COMMAND], "7", "it is not ready"),
        (READY, [["other"]], "7", "its settings or ports differ from those of this start"),
        (READY, [COMMAND], "", "it does not hold the lock of its data directory"),
        (READY, [COMMAND], "8", "it does not hold the lock of its data directory"),
    ],
)
def test_only_a_process_that_fits_is_adopted(
    ready: dict[str, object], commands: list[list[str]], holder: str | None, obstacle: str
) -> None:
    assert adoption_obstacle(FOUND, ready, commands, holder) == obstacle


DEAF = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
SLEEP = "import time; print(1, flush=True); time.sleep(600)"


def process(code: str, *words: str) -> subprocess.Popen[bytes]:
    """A process whose arguments are those of a broker: an option of the interpreter takes the place of `-m`."""
    child = subprocess.Popen(
        [sys.executable, "-Wignore", "-c", code, *words], stdout=subprocess.PIPE, start_new_session=True
    )
    assert child.stdout is not None and child.stdout.readline()
    return child


def test_processes_are_found_by_their_ready_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "link").symlink_to(run)
    monkeypatch.setattr("penstock.apps.control.earlier_run._PROGRAMS", (SLEEP,))
    children = [
        process(SLEEP, "--x=1", f"--ready-file={run / 'broker-2.json'}"),
        process(SLEEP, f"--ready-file={tmp_path / 'link' / 'producer.json'}"),
        process(SLEEP, f"--ready-file={tmp_path / 'elsewhere' / 'broker-1.json'}"),
        process(SLEEP, f"--ready-file={run / 'broker-1.json'}", "--more"),
    ]
    try:
        found = find_processes(run)
        assert [(one.name, one.pid) for one in found] == [
            ("broker-2", children[0].pid),
            ("producer", children[1].pid),
        ]
        ends = asyncio.run(stop_processes([*found, EarlierProcess("gone", 2**22 - 1, ())], 600))
        assert set(ends.values()) == {""}
        assert [child.wait() for child in children[:2]] == [-signal.SIGTERM] * 2
        assert [child.poll() for child in children[2:]] == [None, None]
    finally:
        for child in children:
            child.kill()
            child.communicate()


def test_a_process_that_does_not_stop_is_killed_and_that_is_told() -> None:
    child = process(DEAF)
    try:
        one = EarlierProcess("broker-1", child.pid, ())
        assert asyncio.run(stop_processes([one], 0.05)) == {child.pid: "killed, it ignored SIGTERM for 0 s"}
        assert child.wait() == -signal.SIGKILL
    finally:
        child.kill()
        child.communicate()


def test_who_holds_a_directory_is_known_without_disturbing_it(tmp_path: Path) -> None:
    assert lock_holder(tmp_path) == "" and not (tmp_path / ".lock").exists()
    lock = DirectoryLock(tmp_path)
    assert lock.acquire()
    assert lock_holder(tmp_path) == str(os.getpid())
    lock.release()
    assert lock_holder(tmp_path) == ""


def test_a_ready_file_that_does_not_exist_says_nothing(tmp_path: Path) -> None:
    assert read_ready(tmp_path / "none.json") == {}
