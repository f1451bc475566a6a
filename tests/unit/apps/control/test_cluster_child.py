"""A process of a cluster: ready when it says so, restarted on its port, and quoted when it refuses to start."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from penstock.apps import supervised_process
from penstock.apps.control.cluster_child import ClusterChild
from penstock.apps.ready import StartError

SERVER = """
import json, os, pathlib, signal, sys, time
path, port = pathlib.Path(sys.argv[1]), int(sys.argv[2]) or 4711
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
part = path.with_suffix(".part")
part.write_text(json.dumps({"pid": os.getpid(), "port": port}))
part.rename(path)
while True:
    time.sleep(600)
"""


def child(
    home: Path,
    *code: str,
    name: str = "broker-1",
    on_exit: Callable[[], Awaitable[None]] | None = None,
) -> ClusterChild:
    ready_file = home / "ready.json"

    def command(ready: Mapping[str, object]) -> Sequence[str]:
        return [sys.executable, "-c", *code, str(ready_file), str(ready.get("port", 0))]

    return ClusterChild(name, command, ready_file, home / "log", os.environ, stop_s_max=30, on_exit=on_exit)


async def restarted(one: ClusterChild, pid: object) -> None:
    while one.ready.get("pid") == pid:
        await asyncio.sleep(0.01)


def test_a_port_that_was_picked_is_the_port_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervised_process, "RESTART_S", 0.01)
    caplog.set_level(logging.INFO)

    async def scene() -> None:
        one = child(tmp_path, SERVER)
        await one.start()
        first = one.ready["pid"]
        assert one.ready["port"] == 4711
        os.kill(int(str(first)), signal.SIGKILL)
        await restarted(one, first)
        assert one.ready["port"] == 4711
        arguments = Path(f"/proc/{one.ready['pid']}/cmdline").read_bytes().split(b"\0")
        assert arguments[-2] == b"4711"
        assert await one.stop() == 0
        assert not (tmp_path / "ready.json").exists()

    asyncio.run(scene())
    assert "broker-1 exited with SIGKILL, restarting" in caplog.text
    assert "broker-1 is ready again" in caplog.text


def test_the_end_of_a_process_is_told_before_the_next_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised_process, "RESTART_S", 0.2)

    async def scene() -> None:
        told: list[tuple[int, int | None]] = []

        async def on_exit() -> None:
            told.append((one.process.start_count, one.process.pid))

        one = child(tmp_path, SERVER, on_exit=on_exit)
        await one.start()
        first = one.ready["pid"]
        os.kill(int(str(first)), signal.SIGKILL)
        await restarted(one, first)
        assert told == [(1, None)]
        assert await one.stop() == 0
        assert told == [(1, None)], "a stop is no surprise"

    asyncio.run(scene())


@pytest.mark.parametrize("code", [1, 2])
def test_a_refusal_is_quoted_and_final(tmp_path: Path, code: int) -> None:
    refusing = f"print('other'); print('Error: the port is taken.'); raise SystemExit({code})"

    async def scene() -> None:
        one = child(tmp_path, refusing)
        with pytest.raises(StartError, match=rf"broker-1 cannot start \(code {code}\): the port is taken\."):
            await one.start()
        assert one.process.start_count == 1
        assert await one.stop() == 0

    asyncio.run(scene())


def test_a_crash_before_it_was_ready_is_no_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_process, "RESTART_S", 0.01)
    crash_once = (
        "import os, pathlib, sys\n"
        f"flag = pathlib.Path({str(tmp_path / 'crashed')!r})\n"
        "if not flag.exists(): flag.touch(); os.abort()\n" + SERVER
    )

    async def scene() -> None:
        one = child(tmp_path, crash_once)
        await one.start()
        assert one.process.start_count == 2
        await one.stop()

    asyncio.run(scene())


def test_a_refusal_after_it_was_ready_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A port may be taken for a moment; a cluster that was up is not given up."""
    monkeypatch.setattr(supervised_process, "RESTART_S", 0.01)
    blocked = tmp_path / "blocked"
    sometimes = (
        "import pathlib\n"
        f"if pathlib.Path({str(blocked)!r}).exists(): print('Error: taken'); raise SystemExit(1)\n"
    )

    async def scene() -> None:
        one = child(tmp_path, sometimes + SERVER)
        await one.start()
        blocked.touch()
        first = one.ready["pid"]
        os.kill(int(str(first)), signal.SIGKILL)
        while "exited with code 1" not in caplog.text:
            await asyncio.sleep(0.01)
        blocked.unlink()
        await restarted(one, first)
        await one.stop()

    asyncio.run(scene())
    assert "Error: taken" in caplog.text


def test_a_file_of_an_earlier_process_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "ready.json").write_text(json.dumps({"pid": os.getpid(), "port": 1}))

    async def scene() -> None:
        one = child(tmp_path, SERVER)
        await one.start()
        assert one.ready["port"] == 4711
        await one.stop()

    asyncio.run(scene())


def test_a_long_start_is_mentioned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("penstock.apps.control.cluster_child.WAITING_S", 0.0)
    caplog.set_level(logging.INFO)

    async def scene() -> None:
        one = child(tmp_path, SERVER)
        await one.start()
        await one.stop()

    asyncio.run(scene())
    assert "waiting for broker-1 to become ready" in caplog.text


def test_a_program_that_does_not_exist_is_an_error_of_the_start(tmp_path: Path) -> None:
    async def scene() -> None:
        one = ClusterChild(
            "broker-1", lambda _: [str(tmp_path / "none")], tmp_path / "r", tmp_path / "log", {}, stop_s_max=1
        )
        with pytest.raises(StartError, match="Cannot start broker-1: No such file"):
            await one.start()

    asyncio.run(scene())
