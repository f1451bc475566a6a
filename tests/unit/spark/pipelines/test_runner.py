"""Watching pipelines: each for itself, restarted when that is due, and every failure with its reason. No Spark here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.errors import Unreachable
from penstock.spark.errors import ForeignCheckpoint, ProjectProblem, RunFailed, WrongDefinition
from penstock.spark.pipelines.launch import Launched
from penstock.spark.pipelines.loader import read_project
from penstock.spark.pipelines.progress import Progress
from penstock.spark.pipelines.runner import RunningPipeline, claimed, watch
from penstock.spark.pipelines.state import PipelineState
from penstock.spark.pipelines.supervision import RestartPolicy, Supervision

LOOKS_MAX = 6
LAKE: dict[str, Any] = {"source": {"topics": ["orders"]}, "decode": {"schema": "id bigint"}}


@dataclass
class EndingQuery:
    """A query that has ended after it was asked so many times whether it runs."""

    asked_max: int
    error: str | None
    recentProgress: list[Any] = field(default_factory=list)
    asked: int = 0

    @property
    def status(self) -> dict[str, bool]:
        return {"isDataAvailable": False}

    @property
    def isActive(self) -> bool:
        self.asked += 1
        return self.asked <= self.asked_max

    def exception(self) -> str | None:
        return self.error if self.asked > self.asked_max else None

    def stop(self) -> None:
        self.asked = self.asked_max


class Clock:
    """Moves on by a second with every look."""

    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        self.now_ms += 1_000
        return self.now_ms


def running(
    name: str, state: Any, launch: Callable[[], Any], restarts_max: int | None = 0, **policy: bool
) -> RunningPipeline:
    pipeline: Any = SimpleNamespace(name=name)
    one = RunningPipeline(
        pipeline, state, launch, Supervision(RestartPolicy(restarts_max, **policy), 0), clock_ms=Clock()
    )
    one.begin()
    return one


def launched(query: Any) -> Launched:
    return Launched(query, None, ExitStack())


@pytest.fixture
def state(tmp_path: Path) -> PipelineState:
    return PipelineState(tmp_path / "sums")


def watched(*those: RunningPipeline) -> dict[str, Progress]:
    """The last look at each."""
    shown: list[list[Progress]] = []
    watch(those, shown.append, lambda: False)
    return {look.pipeline: look for look in shown[-1]}


@pytest.mark.parametrize("asked_max", range(LOOKS_MAX))
def test_a_query_that_fails_at_any_moment_is_told(state: PipelineState, asked_max: int) -> None:
    query = EndingQuery(asked_max, "terminated with exception: it went wrong")
    with pytest.raises(RunFailed, match="sums: it went wrong"):
        watched(running("sums", state, lambda: launched(query)))
    status = state.status()
    assert status is not None
    assert (status["state"], status["error"]) == ("failed", "sums: it went wrong")
    assert status["failed_at"].startswith("1970-01-01T00:00:")


@pytest.mark.parametrize("asked_max", range(LOOKS_MAX))
def test_a_query_that_ends_well_is_seen_as_stopped(state: PipelineState, asked_max: int) -> None:
    last = watched(running("sums", state, lambda: launched(EndingQuery(asked_max, None))))["sums"]
    assert (last.state, last.error) == ("stopped", "")


def test_a_pipeline_that_fails_is_restarted_and_the_others_go_on(tmp_path: Path) -> None:
    """The first cannot start twice and fails once; the second is given up; the third never notices."""

    def flaky() -> Iterator[Any]:
        yield Unreachable("no broker answers at x:1")
        yield Unreachable("no broker answers at x:1")
        yield EndingQuery(2, "terminated with exception: Python worker failed to connect back")
        yield EndingQuery(2, None)

    outcomes = flaky()

    def launch() -> Launched:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return launched(outcome)

    def lost() -> Launched:
        raise WrongDefinition([ProjectProblem("pipelines.lost.source", "there is no topic 'x'.")])

    states = {name: PipelineState(tmp_path / name) for name in ("flaky", "lost", "well")}
    well = EndingQuery(40, None)
    with pytest.raises(RunFailed, match=r"^lost: pipelines\.lost\.source: there is no topic 'x'\.$"):
        watched(
            running("flaky", states["flaky"], launch, 5, is_once=True),
            running("lost", states["lost"], lost, 5),
            running("well", states["well"], lambda: launched(well)),
        )
    found = {name: state.status() or {} for name, state in states.items()}
    assert {name: (one["state"], one["restarts"]) for name, one in found.items()} == {
        "flaky": ("stopped", 3),
        "lost": ("failed", 0),
        "well": ("stopped", 0),
    }
    assert "failed to connect back" in found["flaky"]["error"]


@pytest.mark.parametrize(
    ("error", "restarts_max", "told"),
    [
        (
            ConnectionRefusedError("refused"),
            None,
            r"sums: Spark's Java process has exited \(refused\)\. Run it again",
        ),
        (RuntimeError("no session"), 0, "sums: .*no session"),
    ],
)
def test_a_spark_that_does_not_answer_fails_its_pipeline(
    state: PipelineState, error: Exception, restarts_max: int | None, told: str
) -> None:
    class Gone:
        @property
        def isActive(self) -> bool:
            raise error

    with pytest.raises(RunFailed, match=told):
        watched(running("sums", state, lambda: launched(Gone()), restarts_max))


def test_a_status_is_written_when_it_changes_and_never_flushed(
    state: PipelineState, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr("os.fsync", lambda _: pytest.fail("a status is not worth a flush"))
    monkeypatch.setattr(PipelineState, "put_status", lambda _, status: written.append(status["state"]))
    watched(running("sums", state, lambda: launched(EndingQuery(30, None))))
    assert written in (["running", "stopped"], ["starting", "running", "stopped"])


def test_a_stop_keeps_the_reason_and_says_stopped(state: PipelineState) -> None:
    def refuse() -> Launched:
        raise Unreachable("no broker answers at x:1")

    one = running("sums", state, refuse, None)
    looks: list[str] = []
    watch([one], lambda shown: looks.append(shown[0].state), lambda: looks[-1] == "restarting")
    one.stop()
    status = state.status()
    assert status is not None
    assert (status["state"], "no broker answers at x:1" in status["error"]) == ("stopped", True)


def test_failures_before_the_start_are_the_status_of_those_they_concern(tmp_path: Path) -> None:
    pipelines = {name: {**LAKE, "sink": {"table": name}} for name in ("a", "b")}
    project = read_project({"pipelines": pipelines}, tmp_path)

    def status(name: str) -> Any:
        return (PipelineState(tmp_path / ".pipelines" / name).status() or {"error": None})["error"]

    with pytest.raises(WrongDefinition), claimed(project, project.pipelines):
        raise WrongDefinition([ProjectProblem("pipelines.b.steps[0].sql", "there is no column x.")])
    assert (status("a"), status("b")) == (None, "b: pipelines.b.steps[0].sql: there is no column x.")
    moved = {"a": {**LAKE, "sink": {"table": "elsewhere"}}}
    other = read_project({"pipelines": moved}, tmp_path)
    with pytest.raises(ForeignCheckpoint), claimed(other, other.pipelines):
        pass
    assert "belongs to another definition" in status("a")
