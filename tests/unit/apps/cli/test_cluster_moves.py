"""What the commands that move partitions ask for and say, from given answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.apps.cli import cluster_moves
from penstock.apps.cli.cluster_moves import decommission, drain, moves, rebalance
from penstock.apps.cli.cluster_source import ClusterSource, Found
from penstock.apps.cli.main import cli

MOVE = {"topic": "orders", "partition": 0, "from": [1], "to": [2]}
ONGOING = {**MOVE, "leader": 1, "copying": True, "copied_bytes": 2**20, "left_bytes": 2**21, "bytes_per_s": 0}


class Canned(ClusterSource):
    """Answers what it was given, and remembers what it was told to change."""

    def __init__(self, planned: list[Any], ongoing: list[list[Any]], broker: dict[str, Any]) -> None:
        self.told: list[Any] = []
        self._planned, self._ongoing, self._broker = planned, ongoing, broker

    def overview(self) -> Found:
        return Found({"brokers": [self._broker]}, "http")

    def moves(self) -> list[dict[str, Any]]:
        return self._ongoing.pop(0) if len(self._ongoing) > 1 else self._ongoing[0]

    def sizes(self) -> dict[tuple[str, int], int]:
        return {("orders", 0): 5 * 2**20}

    def change(self, path: str, *, method: str = "POST", **query: str) -> dict[str, Any]:
        self.told.append((method, path.removeprefix("/api/v1/cluster"), *query.values()))
        return {"moves": self._planned}

    def unregister(self, broker_id: int) -> None:
        self.told.append(("unregister", broker_id))

    def cancel(self, places: Any) -> list[str]:
        self.told.append(("cancel", list(places)))
        return []


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(cluster_moves, "POLL_SECONDS", 0)

    def call(
        command: Any,
        *words: str,
        planned: list[Any] | None = None,
        ongoing: list[list[Any]] | None = None,
        **broker: Any,
    ) -> tuple[Any, list[Any]]:
        described = {"id": 2, "fenced": False, "draining": False, "replicas": 0, **broker}
        source = Canned([MOVE] if planned is None else planned, ongoing or [[]], described)
        monkeypatch.setattr(cluster_moves, "source_of", lambda bootstrap: source)
        return CliRunner().invoke(cli, ["cluster", command.name, *words]), source.told

    return call


def test_a_dry_run_shows_moves_and_bytes(run: Any) -> None:
    done, told = run(rebalance, "--dry-run", "-o", "json")
    assert json.loads(done.stdout) == {
        "started": False,
        "moves": [{**MOVE, "bytes": 5 * 2**20}],
        "bytes": 5 * 2**20,
    }
    assert told == [("POST", "/rebalance", "true")]
    done, _ = run(rebalance, "--dry-run")
    assert "1 partition to move, 5.0 MiB to copy." in done.stdout
    assert "Nothing to move." in run(rebalance, "--dry-run", planned=[])[0].stdout


def test_nothing_is_started_without_consent(run: Any) -> None:
    done, told = run(rebalance)
    assert done.exit_code == 2 and "--yes" in done.output and told == [("POST", "/rebalance", "true")]


def test_moves_are_started_and_awaited(run: Any) -> None:
    done, told = run(rebalance, "--yes")
    assert "1 partition started to move" in done.stdout and told == [("POST", "/rebalance", "false")]
    done, _ = run(rebalance, "--yes", "--wait", ongoing=[[ONGOING], [ONGOING], []])
    assert "1 partition moved." in done.output and "1 partition left, 2.0 MiB to copy" in done.output


@pytest.mark.parametrize("words", [("--dry-run", "--yes"), ("--dry-run", "--wait")])
def test_what_does_not_go_together(run: Any, words: tuple[str, ...]) -> None:
    assert run(rebalance, *words)[0].exit_code == 2
    assert run(drain, "2", "--undo", "--wait")[0].exit_code == 2


def test_drain_and_its_undoing(run: Any) -> None:
    assert run(drain, "2", "--yes")[1] == [("POST", "/brokers/2/drain", "false")]
    done, told = run(drain, "2", "--undo")
    assert told == [("DELETE", "/brokers/2/drain")] and "is used again" in done.stdout


def test_a_running_broker_is_drained_before_it_is_removed(run: Any) -> None:
    done, told = run(decommission, "2", "--yes")
    assert told == [("POST", "/brokers/2/drain", "false")] and "Stop it" in done.stdout
    done, told = run(decommission, "2", fenced=True)
    assert told == [("unregister", 2)] and "no longer part" in done.stdout
    done, told = run(decommission, "2", fenced=True, replicas=3)
    assert done.exit_code == 5 and "3 partitions" in done.output and told == []
    assert run(decommission, "7")[0].exit_code == 4


def test_moves_are_listed_and_cancelled(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    view = cluster_moves._read_moves(Canned([], [[ONGOING, {**ONGOING, "leader": None}]], {}))
    assert [row[4] for row in view.rows] == ["copying", "no leader: its broker is down"]
    assert view.rows[0][5:] == ("1.0", "2.0", "0.0")
    assert cluster_moves._read_moves(Canned([], [[]], {})).lines == ["No moves in progress."]
    done, told = run(moves, "--cancel", ongoing=[[ONGOING]])
    assert told == [("cancel", [("orders", 0)])] and "1 move cancelled" in done.stdout
