"""A definition is read whole: every problem at once, each with its place and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.spark.pipelines import Workshop, WrongDefinition, load_project
from penstock.spark.pipelines.loader import read_project

LAKE: dict[str, Any] = {
    "source": {"topics": ["orders"]},
    "decode": {"schema": "id bigint, amount double"},
    "sink": {"table": "lake/orders"},
}


def problems(pipeline: dict[str, Any], **shared: Any) -> str:
    with pytest.raises(WrongDefinition) as caught:
        read_project({**shared, "pipelines": {"p": pipeline}}, Path())
    return str(caught.value)


def changed(**parts: dict[str, Any]) -> dict[str, Any]:
    return {name: {**LAKE.get(name, {}), **parts.get(name, {})} for name in {**LAKE, **parts}}


def test_a_small_definition_means_what_it_says(tmp_path: Path) -> None:
    project = read_project({"state_dir": "state", "pipelines": {"p": LAKE}}, tmp_path)
    (one,) = project.pipelines
    assert (one.name, one.kind, one.source.topics, one.sink.format) == ("p", "lake", ("orders",), "delta")
    assert project.state_of(one) == tmp_path / "state" / "p"
    assert project.spark.master == "local[*]"


def test_every_problem_is_told_at_once_with_its_place() -> None:
    told = problems(
        {
            "source": {"topic": ["orders"], "start": "erliest"},
            "decode": {"schema": 7},
            "sink": {"table": "x", "format": "detla", "expire_after": "soon"},
            "trigger": 5,
        },
        bootsrap="x",
    ).splitlines()
    assert told == [
        "bootsrap: unknown key 'bootsrap'. Did you mean 'bootstrap'?",
        "pipelines.p.source.topic: unknown key 'topic'. Did you mean 'topics'?",
        "pipelines.p.source.start: unknown value 'erliest'. Did you mean 'earliest'?",
        "pipelines.p.decode.schema: expected text, found a number (7).",
        "pipelines.p.sink.format: unknown value 'detla'. Did you mean 'delta'?",
        "pipelines.p.sink.expire_after: expected a duration, found 'soon'. Write 500ms, 10s, 5m, 2h or 7d.",
        "pipelines.p.trigger: expected a duration, found a number (5). Write 500ms, 10s, 5m, 2h or 7d.",
    ]


WINDOW: dict[str, Any] = {"size": "1m", "watermark": "10s", "compute": {"n": "count(*)"}}


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        ({"source": {"topics": ["a"]}}, "p.sink: is missing. It sets the topic or table to write to."),
        (changed(source={"pattern": "a.*"}), "p.source: needs either topics or pattern."),
        (changed(decode={"schema_file": "x.avsc"}), "schema_file: is for Avro."),
        (changed(decode={"format": "avro"}), "schema_file: is missing. Set a file"),
        (changed(decode={"format": "raw"}), "reads raw values, which have no columns"),
        (changed(decode={"framing": "confluent"}), "framing: is for Avro."),
        (changed(decode={"dead_letters": {}}), "dead_letters: needs either topic or table."),
        (changed(decode={"bad_rows": "fail", "dead_letters": {"topic": "d"}}), "although bad_rows is fail"),
        (changed(sink={"topic": "t"}), "sink: needs either topic or table."),
        (changed(sink={"mode": "upsert"}), "sink.key: is missing. An upsert needs"),
        (
            changed(sink={"mode": "upsert", "key": "id", "format": "parquet"}),
            "parquet does not support upsert.",
        ),
        (changed(sink={"key": ["id"]}), "which require an upsert."),
        (changed(sink={"table": "s3://bucket/x"}), "s3://bucket/x is not a directory."),
        ({**LAKE, "sink": {"topic": "orders"}}, "sink.topic: is orders, which this pipeline also reads"),
        ({**LAKE, "sink": {"topic": "x", "partition_by": "_date"}}, "partition_by: is for tables."),
        ({**LAKE, "sink": {"topic": "x", "key": ["a", "b"]}}, "A record has one key"),
        ({**LAKE, "steps": [{}]}, "steps[0]: has 0 of sql, python"),
        ({**LAKE, "steps": [{"sql": "select 1", "python": "a:b"}]}, "steps[0]: has 2 of sql, python"),
        ({**LAKE, "steps": [{"python": "no_such_module:f"}]}, "cannot import no_such_module"),
        (
            {**LAKE, "steps": [{"python": "json:loadss"}]},
            "json has no function loadss. Did you mean 'loads'?",
        ),
        ({**LAKE, "steps": [{"window": {**WINDOW, "gap": "1m"}}]}, "window: needs either size or gap."),
        ({**LAKE, "steps": [{"window": {**WINDOW, "slide": "2m"}}]}, "slide: is longer than size"),
        ({**LAKE, "steps": [{"window": {**WINDOW, "emit": "updates"}}]}, "append would store every update"),
        (
            {**LAKE, "steps": [{"window": {**WINDOW, "late": {"topic": "l"}, "emit": "updates"}}]},
            "late: requires emit: final.",
        ),
        (
            {**LAKE, "steps": [{"dedup": {"by": "id", "within": "1m"}}, {"window": WINDOW}]},
            "steps: has dedup and window on the same time column",
        ),
        (
            {
                **changed(source={"history": {"table": "x"}}),
                "steps": [{"dedup": {"by": "id", "within": "1m"}}],
            },
            "history: cannot be combined with dedup",
        ),
    ],
)
def test_parts_that_do_not_go_together_are_told(pipeline: dict[str, Any], words: str) -> None:
    assert words in problems(pipeline)


def test_kinds() -> None:
    def kind(**more: Any) -> str:
        return read_project({"pipelines": {"p": {**LAKE, **more}}}, Path()).pipelines[0].kind

    assert kind() == "lake"
    assert kind(sink={"topic": "x"}) == "transform"
    assert kind(sink={"table": "x", "mode": "upsert", "key": "id"}) == "upsert"
    assert kind(steps=[{"window": WINDOW}]) == "aggregate"
    assert kind(source={"topics": ["a"], "history": {"table": "x"}}) == "replay"


def test_variables_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_AT", "there:1")
    assert (
        read_project({"bootstrap": "${PENSTOCK_AT}", "pipelines": {"p": LAKE}}, Path()).bootstrap == "there:1"
    )
    assert read_project({"bootstrap": "${NOT_SET:-a:2}", "pipelines": {"p": LAKE}}, Path()).bootstrap == "a:2"
    assert "the environment variable NOT_SET is not set" in problems(LAKE, bootstrap="${NOT_SET}")


def test_files_of_both_kinds(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "pipelines: {p: {source: {topics: [a]}, decode: {format: raw}, sink: {table: t}}}"
    )
    assert load_project(tmp_path / "p.yaml").pipelines[0].name == "p"
    (tmp_path / "p.py").write_text(
        "from penstock.spark.pipelines import Workshop\n"
        "shop = Workshop(bootstrap='b:1')\n"
        "@shop.pipeline(source={'topics': ['a']}, decode={'format': 'raw'}, sink={'topic': 'b'})\n"
        "def large_orders(rows):\n    return rows\n"
    )
    project = load_project(tmp_path / "p.py")
    assert project.pipelines[0].name == "large-orders"
    assert callable(project.pipelines[0].steps[0].python)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.yaml", "pipelines: [", "p.yaml:1: is not valid YAML"),
        ("p.yaml", "7", "p.yaml: is not a mapping."),
        ("p.yaml", "bootstrap: a:1", "p.yaml: pipelines: is missing."),
        ("p.py", "x = 1", "p.py: defines 0 projects."),
        ("p.py", "x = 1 +", "p.py:1: cannot be loaded: SyntaxError"),
        ("p.py", "import os; os.environ['NOT_SET']", "p.py: cannot be loaded: KeyError: 'NOT_SET'"),
    ],
)
def test_files_that_hold_no_project(tmp_path: Path, name: str, content: str, words: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(WrongDefinition, match=words):
        load_project(tmp_path / name)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        WrongDefinition, match=r"there is no such file\. Create a first project with: penstock pipeline"
    ):
        load_project(tmp_path / "no.yaml")


def test_a_module_of_steps_may_fail_in_any_way(tmp_path: Path) -> None:
    (tmp_path / "failing_steps.py").write_text("{}['no such key']")
    pipelines = {
        "a": {**LAKE, "steps": [{"python": "failing_steps:f"}]},
        "b": {**LAKE, "steps": [{"python": "no_such_module:f"}]},
    }
    with pytest.raises(WrongDefinition) as caught:
        read_project({"pipelines": pipelines}, tmp_path)
    told = [str(one) for one in caught.value.problems]
    assert told[0].startswith(
        "pipelines.a.steps[0].python: failing_steps does not load: KeyError: 'no such key'."
    )
    assert told[1].startswith("pipelines.b.steps[0].python: cannot import no_such_module")


def test_two_pipelines_of_one_name() -> None:
    shop = Workshop()
    shop.add("p", **LAKE)
    with pytest.raises(WrongDefinition, match="is the name of two pipelines"):
        shop.add("p", **LAKE)
