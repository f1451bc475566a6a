"""What `elect` and `reassign` ask for and say, from given answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.apps.cli import cluster_moves, cluster_placement
from penstock.apps.cli.cluster_placement import elect, reassign
from penstock.apps.cli.cluster_source import ClusterSource, Found
from penstock.apps.cli.main import cli

MOVE = {"topic": "orders", "partition": 0, "from": [1], "to": [1, 2, 3]}
ELECTED = {"topic": "orders", "partition": 0, "elected": True, "leader": 2}
REFUSED = {"topic": "orders", "partition": 1, "elected": False, "error": {"detail": "start broker 3"}}
OFFLINE = {
    "topic": "orders",
    "partition": 1,
    "replicas": [1, 2, 3],
    "offline": [1, 3],
    "last_known_elr": [3],
}


class Canned(ClusterSource):
    """Answers what it was given, and remembers what it was told to change."""

    def __init__(self, elections: list[Any], ongoing: list[list[Any]]) -> None:
        self.told: list[Any] = []
        self._elections, self._ongoing = elections, ongoing

    def partitions(self, filters: Any = (), *, with_internal: bool) -> Found:
        assert list(filters) == ["offline"]
        return Found({"partitions": [OFFLINE, {**OFFLINE, "topic": "invoices"}]}, "http")

    def moves(self) -> list[dict[str, Any]]:
        return self._ongoing.pop(0) if len(self._ongoing) > 1 else self._ongoing[0]

    def sizes(self) -> dict[tuple[str, int], int]:
        return {("orders", 0): 5 * 2**20}

    def change(self, path: str, *, method: str = "POST", body: Any = None, **query: str) -> dict[str, Any]:
        self.told.append((path.removeprefix("/api/v1/cluster"), body, *query.values()))
        if path == cluster_placement.ELECTIONS:
            failed = sum("error" in one for one in self._elections)
            return {"kind": body["kind"], "failed": failed, "elections": self._elections}
        return {"moves": [MOVE]}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(cluster_moves, "POLL_SECONDS", 0)

    def call(
        command: Any,
        *words: str,
        elections: list[Any] | None = None,
        ongoing: list[list[Any]] | None = None,
        is_terminal: bool = False,
        answer: str = "",
    ) -> tuple[Any, list[Any]]:
        source = Canned([ELECTED] if elections is None else elections, ongoing or [[]])
        monkeypatch.setattr(cluster_moves, "source_of", lambda bootstrap: source)
        monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda self: is_terminal)
        return CliRunner().invoke(cli, ["cluster", command.name, *words], input=answer), source.told

    return call


# -- elect


def test_preferred_leaders_are_elected(run: Any) -> None:
    done, told = run(elect, "--all")
    assert told == [("/elections", {"kind": "preferred"})]
    assert "1 leader elected." in done.stdout and done.exit_code == 0
    done, told = run(elect, "orders", "other:3", "-o", "json", elections=[])
    partitions = [{"topic": "orders"}, {"topic": "other", "partition": 3}]
    assert told == [("/elections", {"kind": "preferred", "partitions": partitions})]
    assert json.loads(done.stdout)["elections"] == []
    assert "No election is needed." in run(elect, "--all", elections=[])[0].stdout


def test_a_failed_election_says_why(run: Any) -> None:
    done, _ = run(elect, "orders", elections=[ELECTED, REFUSED])
    assert done.exit_code == 5 and "start broker 3" in done.output and "failed" in done.output


def test_an_unclean_election_needs_consent(run: Any) -> None:
    done, told = run(elect, "orders", "--unclean")
    assert done.exit_code == 2 and told == [] and "lost" in done.output and "--yes" in done.output
    _, told = run(elect, "orders:1", "--unclean", "--yes")
    partitions = [{"topic": "orders", "partition": 1}]
    assert told == [("/elections", {"kind": "unclean", "partitions": partitions})]
    done, told = run(elect, "orders", "--unclean", is_terminal=True, answer="n\n")
    assert done.exit_code == 1 and told == []
    assert "1 partition without a leader" in done.output and "invoices" not in done.output
    _, told = run(elect, "--all", "--unclean", is_terminal=True, answer="y\n")
    assert told == [("/elections", {"kind": "unclean"})]


@pytest.mark.parametrize("words", [(), ("orders", "--all"), ("orders:x", "--yes"), (":1",)])
def test_which_partitions_must_be_clear(run: Any, words: tuple[str, ...]) -> None:
    done, told = run(elect, *words)
    assert done.exit_code == 2 and told == []


# -- reassign


def test_a_dry_run_shows_bytes_of_all_copies(run: Any) -> None:
    done, told = run(reassign, "orders", "--factor", "3", "--dry-run")
    wanted = {"reassignments": [{"topic": "orders", "replication_factor": 3}]}
    assert told == [("/reassignments", wanted, "true")]
    assert "1 partition to move, 10.0 MiB to copy." in done.stdout


def test_replicas_are_changed_and_awaited(run: Any) -> None:
    done, told = run(reassign, "orders:0", "--to", "1, 2,3", "--yes", "--wait", ongoing=[[ONGOING], []])
    wanted = {"reassignments": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}]}
    assert told == [("/reassignments", wanted, "false")]
    assert "1 partition moved." in done.stdout and "1 partition left" in done.stderr


ONGOING = {**MOVE, "leader": 1, "copying": True, "copied_bytes": 1, "left_bytes": 2**20, "bytes_per_s": 0}


def test_nothing_is_moved_without_consent(run: Any) -> None:
    done, told = run(reassign, "orders", "--factor", "3")
    assert done.exit_code == 2 and [one[-1] for one in told] == ["true"]


def test_a_file_of_kafkas_tool(run: Any, tmp_path: Path) -> None:
    file, entry = tmp_path / "moves.json", {"topic": "orders", "partition": 0, "replicas": [1, 2]}
    file.write_text(json.dumps({"version": 1, "partitions": [{**entry, "log_dirs": ["any", "any"]}]}))
    _, told = run(reassign, "--file", str(file), "--yes")
    assert told == [("/reassignments", {"reassignments": [entry]}, "false")]
    _, told = run(reassign, "--file", str(file), "--cancel")
    cancelled = {"topic": "orders", "partition": 0, "cancel": True}
    assert told == [("/reassignments", {"reassignments": [cancelled]}, "false")]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[]", "is not a reassignment"),
        ("{", "is not a reassignment"),
        ('{"version": 2, "partitions": []}', "version is not 1"),
        ('{"version": 1, "partitions": []}', "names no partitions"),
        ('{"version": 1, "partitions": [{"topic": "a", "partition": 0}]}', "replicas"),
        (
            '{"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": ["/d"]}]}',
            "log_dirs",
        ),
    ],
)
def test_a_file_that_is_none(run: Any, tmp_path: Path, content: str, why: str) -> None:
    file = tmp_path / "moves.json"
    file.write_text(content)
    done, told = run(reassign, "--file", str(file), "--yes")
    assert done.exit_code == 2 and why in done.output and told == []


@pytest.mark.parametrize(
    "words",
    [
        ("orders",),
        ("--factor", "3"),
        ("orders", "--factor", "3", "--to", "1"),
        ("orders", "--to", "1,x"),
        ("orders", "--factor", "3", "--dry-run", "--yes"),
    ],
)
def test_what_is_asked_for_must_be_clear(run: Any, words: tuple[str, ...]) -> None:
    done, told = run(reassign, *words)
    assert done.exit_code == 2 and told == []
