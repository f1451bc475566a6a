"""What a definition names and cannot be: columns, loops, shared tables, keys given twice, each with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.spark.pipelines import WrongDefinition, load_project
from penstock.spark.pipelines.analysis import spark_message
from penstock.spark.pipelines.columns import column_names
from penstock.spark.pipelines.loader import read_project
from penstock.spark.pipelines.locations import read_lines

DECODE = {"schema": "id bigint, Customer string, `two words` string, at timestamp"}
WINDOW = {"size": "1m", "watermark": "10s", "compute": {"n": "count(*)"}, "time": "at"}


def problems(pipelines: dict[str, Any], home: Path = Path()) -> list[str]:
    """Everything that is wrong, or nothing."""
    try:
        read_project({"pipelines": pipelines}, home)
    except WrongDefinition as error:
        return [str(one) for one in error.problems]
    return []


def made(topics: Any = ("orders",), decode: Any = None, **parts: Any) -> dict[str, Any]:
    source = {"pattern": topics} if isinstance(topics, str) else {"topics": [*topics]}
    return {"source": source, "decode": decode or DECODE, "sink": {"table": "t"}, **parts}


@pytest.mark.parametrize(
    ("pipeline", "told"),
    [
        (made(decode={**DECODE, "required": ["id", "customer", "two words", "_key"]}), None),
        (
            made(decode={**DECODE, "required": ["idd"]}),
            "decode.required: there is no column 'idd'. Did you mean 'id'?",
        ),
        (made(sink={"table": "t", "partition_by": ["_date", "id"]}), None),
        (
            made(sink={"table": "t", "partition_by": ["customer"]}),
            "sink.partition_by: there is no column 'customer'. Did you mean 'Customer'?",
        ),
        (made(sink={"topic": "x", "key": "nr"}), "sink.key: there is no column 'nr'."),
        (
            made(sink={"table": "t", "mode": "upsert", "key": ["id", "idx"]}),
            "sink.key: there is no column 'idx'. Did you mean 'id'?",
        ),
        (made(steps=[{"sql": "select 1 as nr"}], sink={"topic": "x", "key": "nr"}), None),
        (made(steps=[{"window": WINDOW}], sink={"topic": "x", "key": "window_start"}), None),
        (made(steps=[{"window": WINDOW}], sink={"topic": "x", "key": "id"}), "sink.key: there is no column"),
        (
            made(steps=[{"window": {**WINDOW, "time": "att", "by": ["idd"]}}]),
            "steps[0].window.by: there is no column 'idd'.",
        ),
        (
            made(steps=[{"dedup": {"by": "idd", "within": "1m"}}]),
            "steps[0].dedup.by: there is no column 'idd'. Did you mean 'id'?",
        ),
        (made(decode={"schema": "infer", "required": ["anything"]}), None),
        (made("[", decode={"format": "raw"}), "source.pattern: '[' is not a valid regular expression"),
    ],
)
def test_columns_that_cannot_be_there(pipeline: dict[str, Any], told: str | None) -> None:
    found = problems({"p": pipeline})
    if told is None:
        assert found == []
    else:
        assert any(line.startswith(f"pipelines.p.{told}") for line in found), found


def test_columns_of_avro_are_its_fields(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "a", "fields": [{"name": "id", "type": "long"}]}
    (tmp_path / "a.avsc").write_text(json.dumps(schema))
    avro = {"format": "avro", "schema_file": "a.avsc"}
    assert problems({"p": made(decode={**avro, "required": ["id"]})}, tmp_path) == []
    assert "no column 'idd'" in problems({"p": made(decode={**avro, "required": ["idd"]})}, tmp_path)[0]


def test_names_of_columns() -> None:
    assert column_names("id bigint, `a b` struct<x:int, y:int>, c: decimal(3,2) comment 'x'") == [
        "id",
        "a b",
        "c",
    ]


@pytest.mark.parametrize(
    ("pipeline", "where"),
    [
        (made(sink={"topic": "orders"}), "sink.topic: is orders, which this pipeline also reads"),
        (made(("a", "a.dlq")), "decode.dead_letters.topic: is a.dlq, which this pipeline also reads"),
        (
            made("orders.*", {**DECODE, "dead_letters": {"topic": "orders.dlq"}}),
            "source.pattern: 'orders.*' matches orders.dlq, which this pipeline writes (decode.dead_letters)",
        ),
        (
            made("orders.*", {**DECODE, "dead_letters": {"table": "d"}}, sink={"topic": "orders-2"}),
            "source.pattern: 'orders.*' matches orders-2, which this pipeline writes (sink)",
        ),
        (
            made(
                "o.*",
                {**DECODE, "dead_letters": {"table": "d"}},
                steps=[{"window": {**WINDOW, "late": {"topic": "o-late"}}}],
            ),
            "source.pattern: 'o.*' matches o-late, which this pipeline writes (steps[0].window.late)",
        ),
        (
            made(decode={**DECODE, "dead_letters": {"table": "t"}}),
            "decode.dead_letters.table: is also the table of p",
        ),
    ],
)
def test_a_pipeline_that_reads_what_it_writes(pipeline: dict[str, Any], where: str) -> None:
    found = problems({"p": pipeline})
    assert len(found) == 1, found
    assert found[0].startswith(f"pipelines.p.{where}"), found


def test_a_pattern_may_match_what_it_does_not_write() -> None:
    assert problems({"p": made("orders.*", {**DECODE, "dead_letters": {"topic": "dead"}})}) == []


def test_two_pipelines_on_one_table(tmp_path: Path) -> None:
    dead = {**DECODE, "dead_letters": {"table": "dead"}}
    shared = {
        "a": made(decode=dead, sink={"table": "lake/x"}),
        "b": made(decode=dead, sink={"table": "./lake/x"}),
        "c": made(decode=dead, sink={"table": "lake/x/y"}),
        "d": made(decode={**DECODE, "dead_letters": {"table": "lake/x"}}, sink={"table": "z"}),
    }
    assert [line.partition(". ")[0] for line in problems(shared, tmp_path)] == [
        "pipelines.b.sink.table: is also the table of a",
        "pipelines.c.sink.table: overlaps with the directory of the table of a",
        "pipelines.c.sink.table: overlaps with the directory of the table of b",
        "pipelines.d.decode.dead_letters.table: is also the table of a",
        "pipelines.d.decode.dead_letters.table: is also the table of b",
    ]


def test_every_problem_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        """\
bootsrap: x
pipelines:
  a: &a
    source: {topics: [orders]}
    decode: {schema: "id bigint",
             required: [idd]}
    steps:
      - sql: select 1
      - {sql: ""}
    sink: {table: x}
  b:
    <<: *a
    sink:
      table: y
      format: detla
  a:
    sink: {topic: z}
"""
    )
    with pytest.raises(WrongDefinition) as caught:
        load_project(tmp_path / "p.yaml")
    found = {(one.line, one.path) for one in caught.value.problems}
    assert (1, "bootsrap") in found
    assert (16, "pipelines.a") in found or (3, "pipelines.a") in found
    assert (9, "pipelines.b.steps[1].sql") in found
    assert (15, "pipelines.b.sink.format") in found
    assert all(str(one).startswith(f"p.yaml:{one.line}: {one.path}: ") for one in caught.value.problems)


def test_keys_that_are_given_twice() -> None:
    _, twice = read_lines("pipelines:\n  a: {x: 1}\n  b: {x: 1}\n  a: {x: 2}\n")
    assert [str(one) for one in twice] == [
        "pipelines.a: is a duplicate key, first defined in line 2. Rename or remove one."
    ]


def test_an_alias_inside_of_itself_ends() -> None:
    lines, _ = read_lines("a: &a [*a]\n")
    assert lines["a"] == 1


def test_what_spark_says_is_cut_to_the_cause() -> None:
    said = (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `nix` cannot be resolved. Did you mean [`id`]. SQLSTATE: 42703; "
        "line 1 pos 7;\n'Project ['nix]\n+- SubqueryAlias input\n\nJVM stacktrace:\norg.apache.spark.X\n\tat y"
    )
    assert spark_message(said) == (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `nix` cannot be resolved. Did you mean [`id`].; line 1 pos 7"
    )
    parse = "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'selct'. SQLSTATE: 42601 (line 1, pos 0)\n\n== SQL ==\n"
    assert spark_message(parse) == "[PARSE_SYNTAX_ERROR] Syntax error at or near 'selct'. (line 1, pos 0)"
