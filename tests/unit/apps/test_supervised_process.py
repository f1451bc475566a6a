"""A supervised child process: restarted when it exits, stopped with its parent, explained when it fails."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conditions import until
from penstock.apps import supervised_process
from penstock.apps.process_handle import AdoptedProcess
from penstock.apps.supervised_process import SupervisedProcess, describe_exit

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
]
FAILING = [sys.executable, "-c", "print('bind: address already in use'); raise SystemExit(3)"]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def started(child: SupervisedProcess, count: int) -> int:
    """The pid of the child once it was started this often."""
    while child.start_count < count or child.pid is None:
        await asyncio.sleep(0.01)
    return child.pid


def test_a_child_that_dies_is_started_again_until_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervised_process, "RESTART_S", 0.01)

    async def scene() -> None:
        child = SupervisedProcess("sleeper", SLEEPER, tmp_path / "out")
        await child.start()
        first = await started(child, 1)
        os.kill(first, signal.SIGKILL)
        second = await started(child, 2)
        assert second != first
        await child.stop()
        assert child.pid is None and not is_running(second)
        await child.stop()

    asyncio.run(scene())
    assert "sleeper exited with SIGKILL, restarting in 0.0 s" in caplog.text


def test_failures_are_logged_with_their_remedy_and_ever_longer_delays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervised_process, "RESTART_S", 0.1)
    monkeypatch.setattr(supervised_process, "RESTART_S_MAX", 0.4)

    async def scene() -> None:
        child = SupervisedProcess(
            "etcd", FAILING, tmp_path / "out", explain=lambda tail: f"[{tail.split()[0]}] "
        )
        await child.start()
        while child.start_count < 6:
            await asyncio.sleep(0.01)
        await child.stop()

    with caplog.at_level(logging.ERROR):
        asyncio.run(scene())
    delays = re.findall(r"restarting in ([0-9.]+) s", caplog.text)
    assert delays[:5] == ["0.1", "0.2", "0.4", "0.4", "0.4"]
    assert "exited with code 3" in caplog.text
    assert "[bind:] Last output" in caplog.text
    assert "address already in use" in caplog.text


def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_process, "STOP_S_MAX", 0.05)

    async def scene() -> None:
        child = SupervisedProcess("deaf", STUBBORN, tmp_path / "out")
        await child.start()
        pid = await started(child, 1)
        while "deaf" not in (tmp_path / "out").read_text():
            await asyncio.sleep(0.01)
        await child.stop()
        assert not is_running(pid)

    asyncio.run(scene())


def test_a_program_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    async def scene() -> None:
        with pytest.raises(FileNotFoundError):
            await SupervisedProcess("nothing", [str(tmp_path / "none")], tmp_path / "out").start()

    asyncio.run(scene())


def test_a_program_that_vanished_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervised_process, "RESTART_S", 0.01)
    program, aside = tmp_path / "program", tmp_path / "aside"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)

    async def scene() -> None:
        child = SupervisedProcess("sleeper", [str(program)], tmp_path / "out")
        await child.start()
        program.rename(aside)
        os.kill(await started(child, 1), signal.SIGKILL)
        while "cannot start sleeper" not in caplog.text:
            await asyncio.sleep(0.01)
        aside.rename(program)
        await started(child, 2)
        await child.stop()

    asyncio.run(scene())


def test_a_large_output_file_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_process, "OUTPUT_BYTES_MAX", 10)
    (tmp_path / "out.log").write_text("a long story")

    async def scene() -> None:
        child = SupervisedProcess("sleeper", SLEEPER, tmp_path / "out.log")
        await child.start()
        await child.stop()

    asyncio.run(scene())
    assert (tmp_path / "out.old").read_text() == "a long story"


PARENT = """
import asyncio, pathlib, sys
from penstock.apps.supervised_process import SupervisedProcess, describe_exit
async def main():
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = SupervisedProcess("sleeper", command, pathlib.Path(sys.argv[1]))
    await child.start()
    print(child.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_a_child_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path / "out")], stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_running(child)
    finally:
        parent.kill()
        parent.communicate()
    until(lambda: not is_running(child), "the child outlived its parent")


def test_a_growing_output_file_is_cut_while_the_child_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised_process, "OUTPUT_BYTES_MAX", 1_000)
    monkeypatch.setattr(supervised_process, "OUTPUT_CHECK_S", 0.01)
    talker = "import sys\nwhile True: print('x' * 99, flush=True); sys.stdin.read(1); __import__('time').sleep(0.001)"
    output = tmp_path / "out.log"

    async def scene() -> None:
        child = SupervisedProcess("talker", [sys.executable, "-c", talker], output)
        await child.start()
        while not output.with_suffix(".old").exists() or output.stat().st_size == 0:
            await asyncio.sleep(0.01)
        await child.stop()

    asyncio.run(scene())
    assert set(output.read_text()) <= {"x", "\n"}, "it goes on at the start of the file, without a hole"


def test_a_child_stays_on_its_core(tmp_path: Path) -> None:
    core = max(os.sched_getaffinity(0))

    async def scene() -> None:
        child = SupervisedProcess("sleeper", SLEEPER, tmp_path / "out", core=core)
        await child.start()
        assert os.sched_getaffinity(await started(child, 1)) == {core}
        await child.stop()

    asyncio.run(scene())


def test_a_child_that_must_stop_at_once_is_not_asked(tmp_path: Path) -> None:
    async def scene() -> None:
        child = SupervisedProcess("deaf", STUBBORN, tmp_path / "out")
        await child.start()
        assert await child.stop(at_once=True) == -signal.SIGKILL
        assert await child.stop() == 0

    asyncio.run(scene())


def test_arguments_are_made_for_every_start_and_a_final_exit_ends_it(tmp_path: Path) -> None:
    numbers = iter(range(10))

    async def scene() -> None:
        code = "import sys; raise SystemExit(int(sys.argv[1]))"
        child = SupervisedProcess(
            "counter",
            [sys.executable, "-c", code],
            tmp_path / "out",
            prepare=lambda: [str(next(numbers))],
            is_final=lambda exit_code: exit_code == 2,
        )
        await child.start()
        while child.final_code is None:
            await asyncio.sleep(0.01)
        assert (child.final_code, child.start_count) == (2, 3)
        await child.stop()

    asyncio.run(scene())


def test_a_child_that_exits_too_often_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervised_process, "RESTART_S", 0.01)

    async def scene() -> None:
        child = SupervisedProcess("etcd", FAILING, tmp_path / "out", exits_max=3)
        await child.start()
        while not child.is_given_up:
            await asyncio.sleep(0.01)
        assert (child.start_count, child.restart_count, child.pid) == (3, 2, None)
        assert await child.stop() == 0
        await child.start()
        assert not child.is_given_up
        await child.stop()

    asyncio.run(scene())
    assert "etcd exited with code 3, 3 exits within a minute: not restarting it" in caplog.text


def test_a_child_that_may_outlives_its_parent_and_is_adopted_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervised_process, "RESTART_S", 0.01)
    source = PARENT.replace("pathlib.Path(sys.argv[1]))", "pathlib.Path(sys.argv[1]), outlives=True)")
    parent = subprocess.Popen([sys.executable, "-c", source, str(tmp_path / "out")], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    orphan = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()

    async def scene() -> None:
        child = SupervisedProcess("sleeper", SLEEPER, tmp_path / "out")
        child.adopt(AdoptedProcess(orphan))
        assert child.pid == orphan and child.uptime_s is not None and is_running(orphan)
        await child.release()
        assert is_running(orphan), "it was let go"
        child.adopt(AdoptedProcess(orphan))
        child.kill()
        second = await started(child, 1)
        assert second != orphan and child.restart_count == 1
        assert await child.stop() == -signal.SIGTERM

    try:
        asyncio.run(scene())
    finally:
        if is_running(orphan):
            os.kill(orphan, signal.SIGKILL)
    assert "sleeper exited with an unknown code, restarting" in caplog.text


@pytest.mark.parametrize(
    ("code", "words"), [(0, "code 0"), (-9, "SIGKILL"), (-99, "signal 99"), (None, "an unknown code")]
)
def test_an_exit_is_described(code: int | None, words: str) -> None:
    assert describe_exit(code) == words
