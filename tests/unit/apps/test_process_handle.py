"""A process of another parent: its end is seen, signals reach it, and its start time is known."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest

from penstock.apps.process_handle import AdoptedProcess, boot_time_s, start_time_s

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
