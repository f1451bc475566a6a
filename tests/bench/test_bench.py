"""The rows of `python -m bench` run and report; the figures themselves are not tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_row_names_its_machine_its_samples_and_what_they_are_compared_with(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    done = run("-m", "bench", "start", "--quick", "--dir", str(tmp_path), "--json", str(out))
    assert done.returncode == 0, done.stderr
    content = json.loads(out.read_text())
    assert {"penstock", "kernel", "disk", "append + fdatasync"} <= content["machine"].keys()
    (row,) = content["rows"]
    ready = row["figures"][0]
    assert ready["name"] == "exec to ready"
    assert len(ready["samples"]) == 7
    assert ready["bound_is_floor"] is False
    assert ready["is_met"] in (None, ready["value"] <= ready["bound"])
    assert "python -c pass" in ready["compared_with"]
    assert list(tmp_path.iterdir()) == [out], "the data of the run is gone"


@pytest.mark.parametrize(
    ("row", "judged", "beside"),
    [
        ("commits", ["offset commits, one member, fsync"], "plain produce requests"),
        (
            "rebalance",
            ["broker CPU, 50 members against 25", "broker CPU, 200 members against 50"],
            "149 produces with fsync",
        ),
        ("group-recovery", [], "an empty broker is ready"),
        (
            "metadata",
            ["metadata changes, 50 in flight, against one", "metadata changes, 50 in flight"],
            "append + fdatasync of one event",
        ),
        (
            "grpc-publish",
            ["records through the producer service, batches of 100"],
            "a direct client",
        ),
        ("grpc-subscribe", ["records from the consumer service, one stream"], "a direct client"),
        ("http", ["messages over HTTP, batches of 100, fsync"], "the same records in Kafka batches"),
        (
            "transactions",
            ["transactions of 100 × 1 KB, V1, fsync", "transactions of 100 × 1 KB, V2, fsync"],
            "the same batch without a transaction",
        ),
    ],
)
def test_the_coordinators_rows_judge_what_was_promised_beside_the_plain_path(
    tmp_path: Path, row: str, judged: list[str], beside: str
) -> None:
    out = tmp_path / "figures.json"
    done = run("-m", "bench", row, "--quick", "--dir", str(tmp_path), "--json", str(out))
    assert done.returncode == 0, done.stderr
    (only,) = json.loads(out.read_text())["rows"]
    assert only["row"] == row
    figures = only["figures"]
    assert all(sample > 0 for one in figures for sample in one["samples"] if one["bound"] is not None)
    assert [one["name"] for one in figures if one["bound"] is not None] == judged
    assert any(beside in one["compared_with"] for one in figures)
    assert list(tmp_path.iterdir()) == [out], "the data of the run is gone"


def test_what_doors_add_is_a_difference_that_may_be_nothing(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    done = run("-m", "bench", "doors-open", "--quick", "--dir", str(tmp_path), "--json", str(out))
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())["rows"]
    assert [one["name"] for one in row["figures"]] == [
        "all doors open: time to ready",
        "all doors open: memory at ready",
        "all doors in use: memory",
    ]
    assert all("the Kafka door alone" in one["compared_with"] for one in row["figures"])


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("5 records sent, 1.0 records/sec (0.1 MB/sec)\n9 records sent, 90.5 records/sec (0.9 MB/sec)", "(90.5, 0.9)"),
        ("8 records sent, 90.5 records/sec (0.9 MB/sec), 1 ms", "did not send 9 records"),
        ("KafkaException\n9 records sent, 90.5 records/sec (0.9 MB/sec), 1 ms", "did not send 9 records"),
    ],
)  # fmt: skip
def test_the_figures_of_kafkas_tool_count_only_when_it_sent_everything(output: str, expected: str) -> None:
    done = run("-c", f"from bench.rows.transactions_peer import parse; print(parse({output!r}, 9))")
    assert expected in done.stdout + done.stderr


def test_an_unknown_row_is_refused_with_the_names_there_are() -> None:
    done = run("-m", "bench", "nonsense")
    assert done.returncode == 2
    assert "group-commit" in done.stderr


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("figure('x', 'ms', [20, 21, 22], '', at_most(21)).is_met", "True"),
        ("figure('x', 'ms', [3, 1, 2], '', at_most(3)).is_met", "True"),
        ("figure('x', 'ms', [3, 1, 2], '', at_most(0.5)).is_met", "False"),
        ("figure('x', 'ms', [3, 1, 2], '', at_most(2)).is_met", "None"),
        ("figure('x', '/s', [10], '', at_least(20)).target.shortfall(10)", "2.0"),
        ("figure('x', 'ms', [3, 1, 2], '').is_met", "None"),
        ("figure('x', 'ms', [10, 10, 12], '').is_noisy", "False"),
        ("figure('x', 'ms', [10, 10, 14], '').is_noisy", "True"),
    ],
)
def test_the_median_is_judged_and_the_spread_is_named(expression: str, expected: str) -> None:
    done = run("-c", f"from bench.figures import at_least, at_most, figure; print({expression})")
    assert done.stdout.strip() == expected, done.stderr
