"""Processes of this and of another parent: their end is seen, signals reach them, and start times are known."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conditions import until
from penstock.apps.process_handle import AdoptedProcess, SpawnedProcess, boot_time_s, start_time_s

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_the_end_of_a_process_that_is_not_a_child_of_the_loop_is_seen() -> None:
    with subprocess.Popen(SLEEPER) as other:

        async def scene() -> None:
            process = AdoptedProcess(other.pid)
            assert process.is_running and process.pid == other.pid
            assert 0 <= boot_time_s() - start_time_s(other.pid) < 600
            waiting = asyncio.ensure_future(process.wait())
            process.send_signal(signal.SIGTERM)
            assert await waiting is None
            assert not process.is_running and await process.wait() is None
            process.send_signal(signal.SIGTERM)
            process.close()

        asyncio.run(scene())
        assert other.wait() == -signal.SIGTERM


def test_a_process_that_does_not_exist_is_told() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()

    async def scene() -> None:
        with pytest.raises(ProcessLookupError):
            AdoptedProcess(gone.pid)

    asyncio.run(scene())


def test_a_process_that_is_not_watched_any_more_runs_on() -> None:
    with subprocess.Popen(SLEEPER) as other:

        async def scene() -> None:
            AdoptedProcess(other.pid).close()

        asyncio.run(scene())
        assert other.poll() is None
        other.kill()


def test_a_signal_to_a_child_that_has_just_exited_leaves_its_exit_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop does not know of the exit yet when the signal is sent."""

    async def scene() -> int | None:
        if sys.version_info < (3, 12):  # later versions watch children like this by default
            watcher = asyncio.PidfdChildWatcher()
            watcher.attach_loop(asyncio.get_running_loop())
            monkeypatch.setattr(asyncio.get_event_loop_policy(), "get_child_watcher", lambda: watcher)
        process = SpawnedProcess(await asyncio.create_subprocess_exec(*SLEEPER))
        os.kill(process.pid, signal.SIGKILL)
        stat = Path(f"/proc/{process.pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", "the child did not exit")
        process.send_signal(signal.SIGTERM)
        assert process.is_running
        code = await process.wait()
        assert not process.is_running
        process.send_signal(signal.SIGTERM)
        return code

    assert asyncio.run(scene()) == -signal.SIGKILL
