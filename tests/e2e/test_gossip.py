"""Five processes gossip over real UDP: a killed one is found dead, a stopped one refutes, one that leaves has left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from conditions import until

MEMBER = Path(__file__).with_name("gossip_member.py")
TIME_FACTOR = 0.2
"""Five times as fast as in a real network, so that a death is known within seconds."""


class Process:
    """One member, and the last view of the cluster that it printed."""

    def __init__(self, member_id: int, seed_port: int, directory: Path) -> None:
        self.id = member_id
        self.directory = directory
        self.port = 0
        self.view: dict[str, list[object]] = {}
        words = [str(member_id), str(seed_port), str(directory), str(TIME_FACTOR)]
        self.errors = directory / "stderr"
        with self.errors.open("ab") as errors:
            self.child = subprocess.Popen(
                [sys.executable, MEMBER, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._reading = Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            told = json.loads(line)
            self.port = told.get("port", self.port)
            self.view = told.get("peers", self.view)

    def state_of(self, other: Process) -> object:
        return self.view.get(str(other.id), [None])[0]

    def incarnation_of(self, other: Process) -> int:
        return int(str(self.view[str(other.id)][1]))

    def load_of(self, other: Process) -> object:
        return self.view.get(str(other.id), [None, 0, None])[2]

    def publish(self, load: str) -> None:
        assert self.child.stdin is not None
        print(load, file=self.child.stdin, flush=True)

    def leave(self) -> int:
        assert self.child.stdin is not None
        self.child.stdin.close()
        return self.child.wait()

    def kill(self) -> None:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
            self.child.send_signal(signal.SIGCONT)
            self.child.wait()


def all_say(members: list[Process], other: Process, state: str) -> bool:
    return all(one.state_of(other) == state for one in members if one is not other)


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[Process]]:
    started: list[Process] = []
    try:
        for member_id in range(1, 6):
            directory = tmp_path / str(member_id)
            directory.mkdir()
            started.append(Process(member_id, started[0].port if started else 0, directory))
            until(lambda: started[-1].port, "the member did not bind its socket")
        until(
            lambda: all(all_say(started, one, "alive") for one in started),
            "the members did not find each other",
        )
        yield started
        assert [one.errors.read_text() for one in started] == [""] * 5, "a member crashed on the way"
    finally:
        for one in started:
            one.kill()


def test_a_killed_member_is_found_dead_and_comes_back(members: list[Process]) -> None:
    *others, victim = members
    victim.publish("17")
    until(lambda: all(one.load_of(victim) == "17" for one in others), "its load was not spread")
    before = others[0].incarnation_of(victim)
    victim.kill()
    until(lambda: all_say(others, victim, "dead"), "its death was not noticed")
    again = Process(victim.id, others[0].port, victim.directory)
    members[-1] = again
    until(lambda: all_say(others, again, "alive"), "its return was not noticed")
    assert all(one.incarnation_of(again) > before for one in others)
    assert others[0].leave() == 0
    until(lambda: all_say([*others[1:], again], others[0], "left"), "its farewell was not heard")


def test_a_stopped_member_is_found_dead_and_refutes_when_it_goes_on(members: list[Process]) -> None:
    *others, victim = members
    victim.child.send_signal(signal.SIGSTOP)
    until(lambda: all_say(others, victim, "dead"), "its silence was not noticed")
    dead = others[0].incarnation_of(victim)
    victim.child.send_signal(signal.SIGCONT)
    until(lambda: all_say(others, victim, "alive"), "it did not refute")
    assert all(one.incarnation_of(victim) > dead for one in others)
