"""The console on a real terminal (a pty) and on real pipes, in a process of its own."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from conditions import WAIT_S_MAX, until
from penstock.apps.control.prompt import HISTORY_BYTES_MAX, history_file
from pty_terminal import on_terminal

PROGRAM = Path(__file__).resolve().parents[3] / "console_terminal.py"
COMMAND = (sys.executable, str(PROGRAM))
CTRL_C, CTRL_D = "\x03", "\x04"
PROMPT = ">"
"""Its space is a movement of the cursor."""


def test_a_session_on_a_terminal(tmp_path: Path) -> None:
    with on_terminal(COMMAND, tmp_path) as at:
        at.expect("ready")
        at.expect(PROMPT)
        at.expect("broker-5")  # the toolbar
        at.run("status", "broker-1  healthy")
        at.run("broker stop 3", "broker-3: stopped; it is stopped now")
        at.expect("broker-3 stopped")  # the toolbar
        at.run("broker start 3", "broker-3: started; it is healthy now")
        at.type("kill broker 2\r")
        at.expect("broker-2: killed; it is dead now", "LOG it was killed: broker-2")
        at.run("stauts", "The nearest is 'status'")
        at.type(f"broker stop 1{CTRL_C}")
        at.run("leaders", "orders-0, orders-3")
        at.type("restart all\r")
        at.type(CTRL_C)  # a key for the command that runs, never a signal
        at.expect("still running; its answer will follow")
        at.type("consumer start\r")
        at.expect("consumer: started; it is healthy now", "all services restarted; 8 of 8 are healthy now")
        at.type(CTRL_C)
        at.expect("Stop all services of the cluster? [y/N]")
        at.run("n", PROMPT)
        at.run("shutdown", "Stop all services of the cluster? [y/N]")
        at.run("no", PROMPT)
        at.run("\x1b[A\x1b[A", "consumer: started; it is healthy now")  # the line before the last one
        at.type(CTRL_D)
        at.expect("Stop all services of the cluster? [y/N]")
        at.type("y\r")
        at.expect(
            "done: ['stop broker-3', 'start broker-3', 'kill broker-2', 'start consumer', 'restart metadata'"
        )
        at.expect("'shut down']")
        assert at.process.wait(WAIT_S_MAX) == 0
    history = tmp_path / "penstock" / "console-history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    lines = [line for line in history.read_text("utf-8").splitlines() if line.startswith("+")]
    assert lines[:2] == ["+status", "+broker stop 3"]
    assert "+y" not in lines and "+broker stop 1" not in lines


def test_leaving_the_console_leaves_the_cluster(tmp_path: Path) -> None:
    with on_terminal(COMMAND, tmp_path) as at:
        at.expect("ready")
        at.run("exit", "bye; the cluster runs on")
        assert at.process.poll() is None
        until(lambda: at.sends_signals, "the console does not leave the terminal as it was")
        at.type(CTRL_C)
        at.expect("done: []")
        assert at.process.wait(WAIT_S_MAX) == 0


def test_a_signal_ends_the_prompt_and_a_second_key_stops_without_an_answer(tmp_path: Path) -> None:
    with on_terminal(COMMAND, tmp_path) as at:
        at.expect("ready")
        at.expect(PROMPT)
        at.process.send_signal(signal.SIGINT)
        at.expect("done: []")
        assert at.process.wait(WAIT_S_MAX) == 0
    with on_terminal(COMMAND, tmp_path) as at:
        at.expect(PROMPT)
        at.type(CTRL_C)
        at.expect("[y/N]")
        at.type(CTRL_C)
        at.expect("done: ['shut down']")
        assert at.process.wait(WAIT_S_MAX) == 0


def run_piped(content: bytes, *, stops: bool) -> str:
    """What the program prints; with `stops` it must stop by itself, else SIGINT stops it."""
    with subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(content)
        process.stdin.close()
        process.stdin = None
        lines = []
        if not stops:
            for line in process.stdout:
                lines.append(line)
                if b"bye" in line or b"last" in line:
                    break
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
        rest, problems = process.communicate(timeout=WAIT_S_MAX)
        assert process.returncode == 0, problems
        assert problems == b""
        return b"".join([*lines, rest]).decode()


def test_lines_of_a_pipe() -> None:
    found = run_piped(b"status\n\n# a comment\nbroker stop 3\nexit\nbroker stop 4\n", stops=False)
    assert "> " not in found
    assert "broker-3: stopped; it is stopped now\nbye; the cluster runs on\n" in found
    assert found.endswith("done: ['stop broker-3']\n")


def test_bad_lines_of_a_pipe() -> None:
    long = b"x" * 100_000
    found = run_piped(b"nonsense\n" + long + b"\n\xff\xfe\0\nbroker stop 9\nshutdown", stops=True)
    assert found.splitlines()[1:] == [
        "error: 'nonsense' is not a command. The nearest is 'consumer'. Type help for a list.",
        "error: A line is over the limit of 4000 bytes.",
        "error: '\ufffd\ufffd\\x00' is not a command. The nearest is 'topics'. Type help for a list.",
        "error: There is no broker 9; the brokers are 1, 2, 3, 4, 5.",
        "stopping all services",
        "done: ['shut down']",
    ]


def test_no_input_is_no_console() -> None:
    for stdin in (subprocess.DEVNULL, PROGRAM.open("rb")):
        with subprocess.Popen(COMMAND, stdin=stdin, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=WAIT_S_MAX)
            assert rest.endswith(b"done: []\n")
            assert process.returncode == 0


def test_a_history_that_has_grown_is_shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = Path(history_file())
    entry = "\n# 2026-01-01 00:00:00\n+broker stop 3\n"
    path.write_text(entry * (HISTORY_BYTES_MAX // len(entry) + 1), encoding="utf-8")
    path.chmod(0o644)
    assert Path(history_file()) == path
    assert path.stat().st_size < HISTORY_BYTES_MAX
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text("utf-8").startswith("# 2026")
    assert history_file() == str(path)
