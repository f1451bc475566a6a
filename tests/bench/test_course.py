"""How a row is run: servers that stay up and take turns, warm-up, broken laps, the time there is."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.apps.measuring.machine import Cpus
from penstock.apps.race import tables
from penstock.apps.race.course import WARM_UPS, Course, Heat, Lap, WarmUp, is_steady
from penstock.apps.race.entrants import ENTRANTS
from penstock.apps.race.fleet import Fleet
from penstock.apps.race.row import Line, Row
from penstock.apps.race.schedule import Schedule
from penstock.apps.race.servers.process import ServerProcess
from penstock.apps.race.servers.runner import Promise, Running
from penstock.apps.race.standing import Standing


class Idle:
    """A server's process that does nothing, but notes what is done to it."""

    def __init__(self) -> None:
        self.is_running = True
        self.calls: list[str] = []

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")

    def end(self) -> None:
        self.calls.append("end")
        self.is_running = False

    def cpu_s(self) -> float:
        return 0.0


class Runner:
    """A peer whose server is idle; every start is counted."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.settings: dict[str, str] = {}
        self.started: list[Idle] = []

    def prepare(self) -> str:
        return "1"

    def start(self, home: Path, cpu: int, promise: Promise) -> Running:
        self.started.append(Idle())
        return Running(self.started[-1], {})  # type: ignore[arg-type]


@pytest.fixture
def runners() -> list[Runner]:
    return [Runner(name) for name in ("Penstock", "Kafka", "Redis")]


@pytest.fixture
def course(tmp_path: Path, runners: list[Runner], monkeypatch: pytest.MonkeyPatch) -> Course:
    """Five laps, no waiting for servers to get warm, and a host that takes nothing."""
    monkeypatch.setattr("penstock.apps.race.course.StolenCpu.share", lambda _self: 0.0)
    monkeypatch.setattr("penstock.apps.race.course.WARM_UP", WarmUp(0.0, math.inf))
    monkeypatch.setattr("penstock.apps.race.course.is_steady", lambda _values: True)
    monkeypatch.setattr("penstock.apps.race.course.WARM_UPS", {})
    entrants = [ENTRANTS[0]._replace(runner=runner) for runner in runners]
    return Course(Fleet(tmp_path, 0), Cpus(0, 0), False, entrants, lambda _doing: None)


def test_servers_stay_up_over_the_laps_and_one_runs_at_a_time(course: Course, runners: list[Runner]) -> None:
    order: list[str] = []
    running: list[list[str]] = []

    def run(heat: Heat) -> Lap:
        order.append(heat.name)
        states = {one.name: one.started[-1].calls for one in runners if one.started}
        running.append([name for name, calls in states.items() if not calls or calls[-1] == "resume"])
        return Lap((1.0,), 1, 0.0)

    found = course.race_warm("a row", Promise.OS, run)
    assert order == (
        ["Penstock", "Kafka", "Redis"]  # cold
        + ["Penstock", "Penstock", "Kafka", "Kafka", "Redis", "Redis"]  # one to get warm before the first lap
        + ["Penstock", "Kafka", "Redis"] * 4
    )
    assert running == [[name] for name in order]
    assert [len(one.started) for one in runners] == [2, 2, 2], "a cold one each, and one for all laps"
    assert [one.started[0].calls[-1] for one in runners] == ["end"] * 3
    assert {name: len(laps) for name, laps in found.values.items()} == {"Penstock": 5, "Kafka": 5, "Redis": 5}
    course.race_warm("another", Promise.OS, run)
    assert [len(one.started) for one in runners] == [3, 3, 3], "only a cold one more"
    course.fleet.choose(Promise.FSYNC)
    assert not any(server.is_running for one in runners for server in one.started)


def test_a_broken_lap_is_noted_and_its_server_replaced(course: Course, runners: list[Runner]) -> None:
    ran: list[str] = []

    def run(heat: Heat) -> Lap:
        ran.append(heat.name)
        if heat.name == "Kafka" or (heat.name == "Redis" and ran.count("Redis") == 4):
            raise OSError("the connection\nended")
        return Lap((1.0,), 1, 0.0)

    found = course.race_warm("a row", Promise.OS, run)
    assert {name: len(laps) for name, laps in found.values.items()} == {"Penstock": 5, "Redis": 4}
    assert ran.count("Kafka") == 2, "a cold lap and one to get warm, and then it is out"
    assert found.notes["Redis"] == ["lap 2 broke: OSError: the connection ended"]
    assert len(runners[2].started) == 3, "cold, warm, and one in place of the broken"


def test_ratios_count_warm_laps_and_the_cold_one_is_shown_beside_them(course: Course) -> None:
    laps = dict.fromkeys(("Penstock", "Kafka", "Redis"), 0)

    def run(heat: Heat) -> Lap:
        laps[heat.name] += 1
        is_cold = laps[heat.name] == 1
        return Lap((1.0 if is_cold else 20.0 if heat.name == "Penstock" else 10.0,), 100, 0.5)

    row = Row("a row", (Line("1", "a row", "MB/s", True, 1.0),), run, 1_000, without={"Redis": "it has none"})
    (one,) = row(course)
    assert one.ratio == 2
    assert one.cold == {"Penstock": 1.0, "Kafka": 1.0}
    assert tables.cold_cell(one, "Kafka") == "1 → 10"
    assert tables.cpu_cell(one, "Kafka") == "5,000 µs, 5,000 s", (
        "half a second for 100 messages of 1,000 bytes"
    )
    assert one.absent == {"Redis": "it has none"}


def test_a_server_is_warmed_until_its_laps_lie_close_together(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.apps.race.course.is_steady", is_steady)
    values = iter([0.0, 1.0, 5.0, 9.0, 10.0, 9.5, 20.0, 20.0, 20.0, 20.0, 20.0])
    course.entrants = course.entrants[:1]
    found = course.race_warm("a row", Promise.OS, lambda _heat: Lap((next(values),), 1, 0.0))
    assert found.cold == {"Penstock": (0.0,)}
    assert found.values == {"Penstock": [(20.0,)] * 5}
    assert is_steady([9.0, 10.0, 9.5])
    assert not is_steady([10.0, 10.0])


def test_kafka_is_loaded_for_twenty_seconds_even_if_it_is_steady_before(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]
    monkeypatch.setattr("penstock.apps.race.course.time.monotonic", lambda: now_s[0])
    monkeypatch.setattr("penstock.apps.race.course.WARM_UPS", WARM_UPS)

    def run(_heat: Heat) -> Lap:
        now_s[0] += 1.0
        return Lap((now_s[0],), 1, 0.0)

    found = course.race_warm("a row", Promise.OS, run)
    began_s = {name: laps[0][0] for name, laps in found.values.items()}
    cold_s, penstock_s = 3, 2  # three cold laps; one to get warm, and its first lap
    assert began_s["Penstock"] == cold_s + penstock_s
    assert began_s["Kafka"] - began_s["Penstock"] == 20 + 1


def test_what_laps_share_is_closed_with_the_row(course: Course) -> None:
    events: list[str] = []

    @contextmanager
    def backlog(name: str) -> Iterator[str]:
        events.append(f"fill {name}")
        yield name
        events.append(f"drop {name}")

    def run(heat: Heat) -> Lap:
        assert heat.once("backlog", lambda: backlog(heat.name)) == heat.name
        return Lap((1.0,), 1, 0.0)

    course.entrants = course.entrants[:1]
    course.race_warm("a row", Promise.OS, run)
    assert events == ["fill Penstock", "fill Penstock", "drop Penstock"], "the cold server's goes with it"


def test_a_lap_that_the_host_disturbed_runs_again_and_the_least_disturbed_counts(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = iter([0.5, 0.3, 0.0, 0.2, 0.4, 0.05, 0.0, 0.1])
    monkeypatch.setattr("penstock.apps.race.course.StolenCpu.share", lambda _self: next(shares))
    values = iter(range(7))
    course.entrants = course.entrants[:1]
    found = course.race_fresh("a row", lambda _one: Lap((float(next(values)),), 1, 0.0))
    assert found.values == {"Penstock": [(1.0,), (2.0,), (3.0,), (5.0,), (6.0,)]}


def test_a_row_that_has_taken_its_time_runs_fewer_laps(course: Course) -> None:
    course.over_at_s = time.monotonic()
    found = course.race_fresh("a row", lambda _one: Lap((4.0,), 1, 0.0))
    assert found.values["Penstock"] == [(4.0,)] * 3
    course.is_quick = True
    found = course.race_fresh("a row", lambda _one: Lap((4.0,), 1, 0.0))
    assert found.values["Penstock"] == [(4.0,)]
    one = Standing("1", "a row", "ms", {"Penstock": [4.0]}, False)
    assert tables.cell(one, "Penstock") == "4 (one lap)"


def test_a_paused_server_gets_no_cpu_time_and_its_children_count(tmp_path: Path) -> None:
    burn = "while True: pass"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    process = ServerProcess([sys.executable, "-c", child], tmp_path, 0)
    try:
        process.await_ready(lambda: process.cpu_s() > 0.2)
        process.pause()
        paused_s = process.cpu_s()
        subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
        assert process.cpu_s() == paused_s
        process.resume()
        process.await_ready(lambda: process.cpu_s() > paused_s)
    finally:
        process.end()
    assert not process.is_running


def test_the_schedule_says_what_is_left_at_the_pace_so_far() -> None:
    now_s = [0.0]
    schedule = Schedule(["ingest-kb", "ingest-small"], is_quick=False, clock=lambda: now_s[0])
    assert schedule.left_s() == 280
    now_s[0] = 280.0
    schedule.finish("ingest-kb")
    assert schedule.left_s() == 280, "the first took twice as long as planned"
    assert schedule.over_at_s("ingest-small") == 45 * 60
