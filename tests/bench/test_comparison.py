"""Whole comparisons with replaced rows or servers, and the drivers against a running broker."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from penstock.apps.bench.compare import comparison
from penstock.apps.bench.compare.drivers.driver import (
    ack_times_us,
    end_to_end_us,
    fan_out_rate,
    ingest_rate,
    replay_rate,
)
from penstock.apps.bench.compare.drivers.kafka import KafkaDriver
from penstock.apps.bench.compare.report import files, result
from penstock.apps.bench.compare.runs.contenders import CONTENDERS, Contender, cluster_contender
from penstock.apps.bench.compare.runs.line_result import LineResult
from penstock.apps.bench.compare.runs.row_runner import RowRunner
from penstock.apps.bench.compare.servers.install import CannotInstall
from penstock.apps.bench.harness.process import ServerProcess
from penstock.core.model import Durability
from penstock.testing import Broker, running_broker
from unit.apps.bench.compare.sample_results import line_result


def test_a_failed_row_does_not_end_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_course: RowRunner) -> list[LineResult]:
        raise CannotInstall("no such package")

    monkeypatch.setitem(comparison.ROWS, "replay", broken)
    monkeypatch.setitem(comparison.ROWS, "fan-out", lambda _course: [line_result([30, 30], [20, 20])])
    told = io.StringIO()
    seen: list[int] = []
    found = comparison.compare_brokers(
        Console(file=told, width=200), ["replay", "fan-out"], "", lambda out: seen.append(len(out.lines)),
        is_quick=True,
    )  # fmt: skip
    assert found.broken == {"replay": "CannotInstall: no such package"}
    assert seen == [0, 1], "on_row is called after every row"
    assert "replay failed: CannotInstall: no such package" in told.getvalue()
    assert "1.50 × Redis, met (≥ 1)" in told.getvalue()


def test_sigterm_kills_the_servers_and_keeps_the_finished_rows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    processes: list[ServerProcess] = []

    def ended(runner: RowRunner) -> list[LineResult]:
        runner.pool.choose(Durability.OS)
        server, _ = runner.pool.take(runner.contenders[0])
        processes.append(server.process)
        runner.pool.pause_all()
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("SIGTERM came first")

    rows = {"one": lambda _course: [line_result([30, 30], [20, 20])], "two": ended}
    monkeypatch.setattr(comparison, "ROWS", rows)
    monkeypatch.setattr(comparison, "CLUSTER_ROWS", {})
    monkeypatch.setattr(comparison, "loader_ceiling", lambda _course: "")
    with pytest.raises(SystemExit):
        comparison.compare_brokers(
            Console(file=io.StringIO()), [], "", lambda out: files.write_files(tmp_path, out), is_quick=True
        )
    assert [one.is_running for one in processes] == [False]
    found = result.read_result(tmp_path / "comparison.json")
    assert found is not None and list(found.rows) == ["one"]


def test_a_comparison_is_resumed_and_single_rows_are_merged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[str] = []

    def measure(name: str) -> comparison.Measure:
        def run(_course: RowRunner) -> list[LineResult]:
            ran.append(name)
            return [line_result([30, 30], [20, 20])]

        return run

    monkeypatch.setattr(comparison, "ROWS", {name: measure(name) for name in ("one", "two", "three")})
    monkeypatch.setattr(comparison, "CLUSTER_ROWS", {})
    monkeypatch.setattr(comparison, "loader_ceiling", lambda _course: "")

    def hold(*rows: str, resumed: bool = False, quick: bool = False) -> result.ComparisonResult:
        before = result.read_result(tmp_path / "comparison.json")
        return comparison.compare_brokers(
            Console(file=io.StringIO()), rows, "", lambda out: files.write_files(tmp_path, out),
            is_quick=quick, before=before, is_resumed=resumed,
        )  # fmt: skip

    hold("two")
    assert list(hold(resumed=True).rows) == ["two", "one", "three"]
    assert ran == ["two", "one", "three"]
    assert list(hold("three").rows) == ["two", "one", "three"], "the rows that were not named stay"
    assert ran == ["two", "one", "three", "three"]
    assert list(hold("one", quick=True).rows) == ["one"], "a quick run does not mix with a full one"


ADDRESSES = re.compile(
    r"listen|stream\.listen|advertised|controller\.(quorum|listener)|node\.id|log\.dirs|store_dir"
    r"|(bind|port|queue-port|dir|data-dir|ready-file|node-id)$"
)
"""Addresses, directories and names of a server, which do not affect the figures."""


CLUSTERS = [found for one in CONTENDERS if (found := cluster_contender(one, (0,))) is not None]


def launcher_id(contender: Contender) -> str:
    return type(contender.launcher).__name__


@pytest.mark.parametrize("contender", [*CONTENDERS, *CLUSTERS], ids=launcher_id)
def test_every_setting_of_a_server_is_in_the_result(
    contender: Contender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: set[str] = set()

    class FakeProcess:
        def __init__(self, command: list[object], home: Path, *_: object, **__: object) -> None:
            given.update(re.findall(r"--([a-z-]+)", " ".join(map(str, command))))
            self._home, self.started_ns = home, 0

        def await_ready(self, *_: object) -> None:
            (self._home / "ready.json").write_text(json.dumps({"host": "", "port": 0, "queue_port": 0}))
            coordinator = {"host": "127.0.0.1", "port": 1, "secret_file": ""}
            (self._home.parent / "coordinator.json").write_text(json.dumps(coordinator))

    module = sys.modules[type(contender.launcher).__module__]
    monkeypatch.setattr(module, "ServerProcess", FakeProcess, raising=False)
    for shared in ("broker", "cluster"):
        monkeypatch.setattr(f"penstock.apps.bench.harness.{shared}.ServerProcess", FakeProcess)
    monkeypatch.setattr("penstock.apps.bench.harness.cluster.await_whole", lambda _addresses: None)
    for name in ("from_debian", "from_pip", "from_maven", "_formatted"):
        monkeypatch.setattr(module, name, lambda *_: tmp_path / "cache", raising=False)
    monkeypatch.setattr("penstock.apps.bench.compare.servers.kafka.from_maven", lambda *_: tmp_path / "cache")
    for data in ("data", "broker-1/data", "broker-2/data", "broker-3/data"):
        (tmp_path / "cache" / data).mkdir(parents=True)
    for durability in (Durability.OS, Durability.FSYNC):
        home = tmp_path / durability
        home.mkdir()
        contender.launcher.start(home, 0, durability)
        for file in (*home.glob("*.conf"), *home.rglob("*.properties")):
            given.update(re.findall(r"[a-z][a-z_.]+(?=: | ?=|\.1 =)", file.read_text()))
    documented = " ".join(contender.launcher.settings)
    assert given
    assert [name for name in sorted(given) if name not in documented and not ADDRESSES.match(name)] == []


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


def test_the_driver_counts_what_it_sends(broker: Broker) -> None:
    driver = KafkaDriver((broker.host, broker.port), 100, "compared")
    driver.create_stream()
    writer = driver.writer()
    load = writer.load(50)
    assert ingest_rate(writer, load, 2_000, 500) > 0
    assert len(ack_times_us(writer, 20)) == 20
    assert replay_rate(driver.reader(from_start=True), 2_020) > 0
    readers = [driver.reader(from_start=False) for _ in range(3)]
    assert fan_out_rate(writer, readers, writer.load(50), 1_000, 200) > 0
    times_us = end_to_end_us(writer, driver.reader(from_start=False), 200, 2_000)
    assert len(times_us) == 200
    assert min(times_us) > 0
