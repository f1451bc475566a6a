"""What `penstock cluster scrub` asks for and says, from given answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.apps.cli import cluster_scrub
from penstock.apps.cli.cluster_source import ClusterSource
from penstock.apps.cli.main import cli


def progress(*, running: bool = False, mib: int = 0, differences: int = 0, **broker: Any) -> dict[str, Any]:
    return {
        "running": running,
        "scrubbed_bytes": mib << 20,
        "differences": differences,
        "repairs": 0,
        "brokers": [{"id": 1, **broker}],
    }


class Canned(ClusterSource):
    """Answers what it was given, and remembers what it was told to change."""

    def __init__(self, answers: list[dict[str, Any]]) -> None:
        self.told: list[Any] = []
        self._answers = answers

    def scrub(self) -> dict[str, Any] | None:
        return self._answers.pop(0)

    def change(self, path: str, *, method: str = "POST", body: Any = None, **query: str) -> dict[str, Any]:
        self.told.append((method, path, body))
        return progress(running=True)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(cluster_scrub, "POLL_SECONDS", 0)

    def call(*words: str, answers: list[dict[str, Any]]) -> tuple[Any, list[Any]]:
        source = Canned(answers)
        monkeypatch.setattr(cluster_scrub, "source_of", lambda bootstrap: source)
        return CliRunner().invoke(cli, ["cluster", "scrub", *words]), source.told

    return call


def test_a_round_is_started(run: Any) -> None:
    done, told = run(answers=[progress()])
    assert done.exit_code == 0 and "Started." in done.stdout
    assert told == [("POST", "/api/v1/cluster/scrub", {})]
    assert run("orders", answers=[progress()])[1][0][2] == {"topic": "orders"}


def test_a_round_is_awaited_and_reported(run: Any) -> None:
    answers = [progress(mib=5, differences=3), progress(running=True, mib=6), progress(mib=12, differences=5)]
    done, _ = run("--wait", answers=list(answers))
    assert done.exit_code == 0 and "7.0 MiB compared: 2 differences found." in done.stdout
    done, _ = run("--wait", answers=[progress(), progress(mib=1)])
    assert "1.0 MiB compared: no differences found." in done.stdout
    done, _ = run("--wait", "-o", "json", answers=list(answers))
    assert json.loads(done.stdout.splitlines()[-1]) == answers[-1]


def test_brokers_that_did_not_answer_are_named(run: Any) -> None:
    done, _ = run("--wait", answers=[progress(), progress(error={"detail": "no route to it"})])
    assert "Broker 1 did not answer: no route to it" in done.stdout
