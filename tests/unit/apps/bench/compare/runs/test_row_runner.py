"""How a row is measured: interleaved runs on servers that stay up, warm-up, failed runs, the time budget."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from penstock.apps.bench.compare.report import tables
from penstock.apps.bench.compare.runs.contenders import CONTENDERS
from penstock.apps.bench.compare.runs.line_result import LineResult
from penstock.apps.bench.compare.runs.row import Row, RowLine
from penstock.apps.bench.compare.runs.row_runner import (
    WARM_UPS,
    RowRunner,
    RunContext,
    RunResult,
    WarmUp,
    is_steady,
)
from penstock.apps.bench.compare.runs.server_pool import ServerPool
from penstock.apps.bench.compare.servers.launcher import RunningServer
from penstock.apps.bench.harness.machine import Cpus
from penstock.core.model import Durability


class Idle:
    """A server process that only records the calls."""

    def __init__(self) -> None:
        self.is_running = True
        self.calls: list[str] = []

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")

    def kill(self) -> None:
        self.calls.append("kill")
        self.is_running = False

    def cpu_s(self) -> float:
        return 0.0


class FakeLauncher:
    """Starts idle servers and records them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.settings: dict[str, str] = {}
        self.started: list[Idle] = []

    def prepare(self) -> str:
        return "1"

    def start(self, home: Path, cpu: int, durability: Durability) -> RunningServer:
        self.started.append(Idle())
        return RunningServer(self.started[-1], {})  # type: ignore[arg-type]


@pytest.fixture
def launchers() -> list[FakeLauncher]:
    return [FakeLauncher(name) for name in ("Penstock", "Kafka", "Redis")]


@pytest.fixture
def runner(tmp_path: Path, launchers: list[FakeLauncher], monkeypatch: pytest.MonkeyPatch) -> RowRunner:
    """Five runs per server, one run of warm-up, and no CPU time stolen by the host."""
    monkeypatch.setattr("penstock.apps.bench.compare.runs.row_runner.StolenCpu.share", lambda _self: 0.0)
    monkeypatch.setattr("penstock.apps.bench.compare.runs.row_runner.WARM_UP", WarmUp(0.0, math.inf))
    monkeypatch.setattr("penstock.apps.bench.compare.runs.row_runner.is_steady", lambda _values: True)
    monkeypatch.setattr("penstock.apps.bench.compare.runs.row_runner.WARM_UPS", {})
    contenders = [CONTENDERS[0]._replace(launcher=launcher) for launcher in launchers]
    return RowRunner(ServerPool(tmp_path, 0), Cpus(0, 0), False, contenders, lambda _doing: None)


def test_servers_stay_up_between_runs_and_one_runs_at_a_time(
    runner: RowRunner, launchers: list[FakeLauncher]
) -> None:
    order: list[str] = []
    running_server: list[list[str]] = []

    def run(context: RunContext) -> RunResult:
        order.append(context.name)
        states = {one.name: one.started[-1].calls for one in launchers if one.started}
        running_server.append([name for name, calls in states.items() if not calls or calls[-1] == "resume"])
        return RunResult((1.0,), 1, 0.0)

    found = runner.run_warm("a row", Durability.OS, run)
    assert order == (
        ["Penstock", "Kafka", "Redis"]  # cold
        + ["Penstock", "Penstock", "Kafka", "Kafka", "Redis", "Redis"]  # one of warm-up before the first run
        + ["Penstock", "Kafka", "Redis"] * 4
    )
    assert running_server == [[name] for name in order]
    assert [len(one.started) for one in launchers] == [2, 2, 2], "a cold one each, and one for all runs"
    assert [one.started[0].calls[-1] for one in launchers] == ["kill"] * 3
    assert {name: len(runs) for name, runs in found.values.items()} == {"Penstock": 5, "Kafka": 5, "Redis": 5}
    runner.run_warm("another", Durability.OS, run)
    assert [len(one.started) for one in launchers] == [3, 3, 3], "only one more, for the cold run"
    runner.pool.choose(Durability.FSYNC)
    assert not any(server.is_running for one in launchers for server in one.started)


def test_a_failed_run_is_noted_and_its_server_replaced(
    runner: RowRunner, launchers: list[FakeLauncher]
) -> None:
    ran: list[str] = []

    def run(context: RunContext) -> RunResult:
        ran.append(context.name)
        if context.name == "Kafka" or (context.name == "Redis" and ran.count("Redis") == 4):
            raise OSError("the connection\nended")
        return RunResult((1.0,), 1, 0.0)

    found = runner.run_warm("a row", Durability.OS, run)
    assert {name: len(runs) for name, runs in found.values.items()} == {"Penstock": 5, "Redis": 4}
    assert ran.count("Kafka") == 2, "a cold run and one of warm-up, then it is skipped"
    assert found.notes["Redis"] == ["run 2 failed: OSError: the connection ended"]
    assert len(launchers[2].started) == 3, "cold, warm, and the replacement"


def test_ratios_use_warm_runs_and_the_cold_run_is_reported(runner: RowRunner) -> None:
    runs = dict.fromkeys(("Penstock", "Kafka", "Redis"), 0)

    def run(context: RunContext) -> RunResult:
        runs[context.name] += 1
        is_cold = runs[context.name] == 1
        return RunResult((1.0 if is_cold else 20.0 if context.name == "Penstock" else 10.0,), 100, 0.5)

    row = Row(
        "a row", (RowLine("1", "a row", "MB/s", True, 1.0),), run, 1_000, without={"Redis": "not supported"}
    )
    (one,) = row(runner)
    assert one.ratio == 2
    assert one.cold == {"Penstock": 1.0, "Kafka": 1.0}
    assert tables.cold_cell(one, "Kafka") == "1 → 10"
    assert tables.cpu_cell(one, "Kafka") == "5,000 µs, 5,000 s", (
        "half a second for 100 messages of 1,000 bytes"
    )
    assert one.absent == {"Redis": "not supported"}


def test_a_server_is_warmed_up_until_its_runs_are_steady(
    runner: RowRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.apps.bench.compare.runs.row_runner.is_steady", is_steady)
    values = iter([0.0, 1.0, 5.0, 9.0, 10.0, 9.5, 20.0, 20.0, 20.0, 20.0, 20.0])
    runner.contenders = runner.contenders[:1]
    found = runner.run_warm("a row", Durability.OS, lambda _heat: RunResult((next(values),), 1, 0.0))
    assert found.cold == {"Penstock": (0.0,)}
    assert found.values == {"Penstock": [(20.0,)] * 5}
    assert is_steady([9.0, 10.0, 9.5])
    assert not is_steady([10.0, 10.0])


def test_a_row_may_warm_up_with_another_load_and_then_has_no_cold_run(runner: RowRunner) -> None:
    ran: list[str] = []

    def run(what: str, context: RunContext) -> RunResult:
        ran.append(f"{what} {context.name}")
        return RunResult((1.0,), 1, 0.0)

    lines = (RowLine("1", "a row", "s", False),)
    row = Row("a row", lines, partial(run, "kill"), 0, warm_with=partial(run, "ingest"))
    runner.contenders = runner.contenders[:2]
    (one,) = row(runner)
    assert ran[:4] == ["ingest Penstock", "kill Penstock", "ingest Kafka", "kill Kafka"]
    assert set(ran[4:]) == {"kill Penstock", "kill Kafka"}
    assert one.cold == {}


def test_kafka_is_warmed_up_for_at_least_twenty_seconds(
    runner: RowRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]
    monkeypatch.setattr("penstock.apps.bench.compare.runs.row_runner.time.monotonic", lambda: now_s[0])
    monkeypatch.setattr("penstock.apps.bench.compare.runs.row_runner.WARM_UPS", WARM_UPS)

    def run(_heat: RunContext) -> RunResult:
        now_s[0] += 1.0
        return RunResult((now_s[0],), 1, 0.0)

    found = runner.run_warm("a row", Durability.OS, run)
    began_s = {name: runs[0][0] for name, runs in found.values.items()}
    cold_s, penstock_s = 3, 2  # three cold runs; one of warm-up and the first run
    assert began_s["Penstock"] == cold_s + penstock_s
    assert began_s["Kafka"] - began_s["Penstock"] == 20 + 1


def test_shared_resources_are_closed_after_the_row(runner: RowRunner) -> None:
    events: list[str] = []

    @contextmanager
    def backlog(name: str) -> Iterator[str]:
        events.append(f"fill {name}")
        yield name
        events.append(f"drop {name}")

    def run(context: RunContext) -> RunResult:
        assert context.once("backlog", lambda: backlog(context.name)) == context.name
        return RunResult((1.0,), 1, 0.0)

    runner.contenders = runner.contenders[:1]
    runner.run_warm("a row", Durability.OS, run)
    assert events == ["fill Penstock", "fill Penstock", "drop Penstock"], (
        "that of the cold run goes with its server"
    )


def test_a_run_that_the_host_disturbed_is_repeated_and_the_least_disturbed_counts(
    runner: RowRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = iter([0.5, 0.3, 0.0, 0.2, 0.4, 0.05, 0.0, 0.1])
    monkeypatch.setattr(
        "penstock.apps.bench.compare.runs.row_runner.StolenCpu.share", lambda _self: next(shares)
    )
    values = iter(range(7))
    runner.contenders = runner.contenders[:1]
    found = runner.run_fresh("a row", lambda _one: RunResult((float(next(values)),), 1, 0.0))
    assert found.values == {"Penstock": [(1.0,), (2.0,), (3.0,), (5.0,), (6.0,)]}


def test_a_row_over_its_time_budget_makes_fewer_runs(runner: RowRunner) -> None:
    runner.over_at_s = time.monotonic()
    found = runner.run_fresh("a row", lambda _one: RunResult((4.0,), 1, 0.0))
    assert found.values["Penstock"] == [(4.0,)] * 3
    runner.is_quick = True
    found = runner.run_fresh("a row", lambda _one: RunResult((4.0,), 1, 0.0))
    assert found.values["Penstock"] == [(4.0,)]
    one = LineResult("1", "a row", "ms", {"Penstock": [4.0]}, False)
    assert tables.cell(one, "Penstock") == "4 (one run)"
