"""A checkpoint belongs to one definition, and one process at a time runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.spark.errors import AlreadyRunning, ForeignCheckpoint, PipelineError
from penstock.spark.pipelines.definition import Pipeline
from penstock.spark.pipelines.loader import read_project
from penstock.spark.pipelines.state import PipelineState

WINDOW: dict[str, Any] = {"size": "1m", "watermark": "10s", "compute": {"n": "count(*)"}}


def made(**parts: Any) -> Pipeline:
    body = {
        "source": {"topics": ["orders"]},
        "decode": {"schema": "id bigint"},
        "sink": {"table": "t"},
        **parts,
    }
    return read_project({"pipelines": {"p": body}}, Path()).pipelines[0]


def test_an_id_is_given_once_and_kept(tmp_path: Path) -> None:
    state = PipelineState(tmp_path / "p")
    first = state.claim(made())
    assert first.startswith("p:")
    assert state.claim(made(trigger="5s", decode={"schema": "id bigint, more string"})) == first
    assert PipelineState(tmp_path / "q").claim(made()) != first


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"source": {"topics": ["others"]}}, r'topics was \["orders"\] and is \["others"\]'),
        ({"sink": {"table": "u"}}, 'sink was "delta:t" and is "delta:u"'),
        ({"steps": [{"window": WINDOW}]}, "steps with state was"),
    ],
)
def test_another_definition_is_refused_with_words(tmp_path: Path, parts: dict[str, Any], words: str) -> None:
    state = PipelineState(tmp_path / "p")
    state.claim(made())
    with pytest.raises(ForeignCheckpoint, match=words) as caught:
        state.claim(made(**parts))
    assert "Rename the pipeline" in str(caught.value)


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p" / "checkpoint").mkdir(parents=True)
    with pytest.raises(ForeignCheckpoint, match="does not belong to a pipeline"):
        PipelineState(tmp_path / "p").claim(made())


def test_one_process_at_a_time(tmp_path: Path) -> None:
    state = PipelineState(tmp_path / "p")
    assert not state.is_running
    with state.locked():
        assert state.is_running
        with (
            pytest.raises(AlreadyRunning, match=r"p is already running in process \d+"),
            PipelineState(tmp_path / "p").locked(),
        ):
            pass
    assert not state.is_running


def test_a_broken_file_is_told(tmp_path: Path) -> None:
    state = PipelineState(tmp_path / "p")
    state.write("x.json", {"a": 1})
    assert state.read("x.json") == {"a": 1}
    (tmp_path / "p" / "x.json").write_text("{")
    with pytest.raises(PipelineError, match="is not valid JSON"):
        state.read("x.json")
