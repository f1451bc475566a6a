"""Topics as tables, in Arrow, in pandas and in SQL, from a real broker."""

from __future__ import annotations

import itertools
import json
import re
import sys

import pytest
from click.testing import CliRunner, Result

import penstock
from penstock.apps.cli.main import cli
from penstock.client.errors import BadArgument, NotFound, NotInstalled, SerializationFailed
from penstock.client.raw.cluster import Cluster
from penstock.core.model import Header, NewRecord
from penstock.testing import Broker
from topic_fixtures import create, numbered, put

_numbers = itertools.count()


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"orders{next(_numbers)}"
    create(cluster, name, 2)
    return name


def fill(cluster: Cluster, topic: str) -> None:
    """Three orders, one of them deleted again."""
    made = [
        NewRecord(b"k%d" % number, json.dumps({"id": number, "total": number * 1.5}).encode())
        for number in range(3)
    ]
    put(cluster, topic, made[:2])
    put(cluster, topic, [made[2], NewRecord(b"k0", None)], partition=1)


def test_all_records_with_kafkas_columns(broker: Broker, cluster: Cluster, topic: str) -> None:
    put(cluster, topic, numbered(5))
    put(cluster, topic, [NewRecord(b"k", b"v", (Header("h", b"x"),))], partition=1)
    found = penstock.table(topic, broker.bootstrap).to_arrow(headers=True)
    assert found.num_rows == 6
    assert found.column("headers").to_pylist()[-1] == [{"key": "h", "value": b"x"}]
    frame = penstock.table(topic, broker.bootstrap).to_pandas(values="text")
    assert list(frame["value"]) == ["v0", "v1", "v2", "v3", "v4", "v"]


def test_json_values_become_columns(broker: Broker, cluster: Cluster, topic: str) -> None:
    fill(cluster, topic)
    found = penstock.table(topic, broker.bootstrap).to_arrow(values="json")
    assert found.column("total").to_pylist() == [0.0, 1.5, 3.0, None]
    assert found.column("_key").to_pylist() == ["k0", "k1", "k2", "k0"]
    assert found.column("_partition").to_pylist() == [0, 0, 1, 1]


def test_an_empty_topic_is_an_empty_table(broker: Broker, topic: str) -> None:
    assert penstock.table(topic, broker.bootstrap).to_arrow().num_rows == 0
    assert penstock.table(topic, broker.bootstrap).to_arrow(values="json").num_rows == 0


def test_what_cannot_be_is_said(broker: Broker, cluster: Cluster, topic: str) -> None:
    put(cluster, topic, [b"\xff", b"[1]"])
    with pytest.raises(NotFound, match=f"Did you mean '{topic}'"):
        penstock.table(topic + "x", broker.bootstrap).to_arrow()
    with pytest.raises(BadArgument, match="bytes, text, json"):
        penstock.table(topic, broker.bootstrap).to_arrow(values="xml")
    with pytest.raises(SerializationFailed, match="not UTF-8"):
        penstock.table(topic, broker.bootstrap).to_arrow(values="text")
    with pytest.raises(SerializationFailed, match="JSON object"):
        penstock.table(topic, broker.bootstrap).to_arrow(values="json")


def run(broker: Broker, *words: str) -> Result:
    return CliRunner().invoke(cli, ["sql", *words, "--bootstrap", broker.bootstrap])


def test_sql_over_a_topic(broker: Broker, cluster: Cluster, topic: str) -> None:
    fill(cluster, topic)
    counted = run(broker, f"select count(*) as n, sum(total) as total from {topic}", "-o", "json")
    assert json.loads(counted.output) == {"n": 4, "total": 4.5}
    shown = run(broker, f"select _key, id from {topic} where id = 2")
    assert "k2" in shown.output
    raw = run(broker, f'select "offset", value from {topic}', "--values", "text", "-o", "json")
    assert sorted(json.loads(line)["offset"] for line in raw.output.splitlines()) == [0, 0, 1, 1]


def test_a_column_may_have_the_name_of_a_function(broker: Broker, cluster: Cluster, topic: str) -> None:
    put(cluster, topic, [b'{"user": "ann", "order": 1}', b'{"user": "bob", "order": 2}'])
    found = run(
        broker, f"select user, count(*) as n from {topic} where user = 'ann' group by user", "-o", "json"
    )
    assert json.loads(found.output) == {"user": "ann", "n": 1}


def test_a_function_is_never_taken_for_a_column(broker: Broker, cluster: Cluster, topic: str) -> None:
    put(cluster, topic, [b"not JSON"])
    missing = run(broker, f"select user from {topic}")
    assert missing.exit_code == 5
    assert f"There is no column 'user': {topic} has key, value, topic" in missing.output
    renamed = run(broker, f"select user from (select value as user from {topic})", "-o", "json")
    assert json.loads(renamed.output) == {"user": "not JSON"}
    assert run(broker, "select user").exit_code == 0, "no topic is asked"


@pytest.mark.parametrize(
    ("query", "quoted"),
    [
        ("select order from {}", 'select "order" from {}'),
        ("select offset, value from {} order by offset", 'select "offset", value from {} order by "offset"'),
        (
            "select group, 'group' from {} group by group",
            'select "group", \'group\' from {} group by "group"',
        ),
        ("select * from order", 'select * from "order"'),
    ],
)
def test_reserved_words_are_shown_in_quotes(broker: Broker, topic: str, query: str, quoted: str) -> None:
    refused = run(broker, query.format(topic))
    assert refused.exit_code == 5
    assert "reserved word" in refused.output
    assert quoted.format(topic) in refused.output.splitlines()


def test_sql_that_cannot_be_run_is_said(broker: Broker, cluster: Cluster, topic: str) -> None:
    put(cluster, topic, [b"\xff"])
    assert json.loads(run(broker, f"select count(*) as n from {topic}", "-o", "json").output) == {"n": 1}
    missing = run(broker, "select * from nobody_knows")
    assert (missing.exit_code, "there is no topic" in missing.output.lower()) == (4, True)
    wrong = run(broker, f"selec * from {topic}")
    assert wrong.exit_code == 5
    assert "cannot be run" in wrong.output
    assert "reserved" not in wrong.output


@pytest.mark.parametrize("package", ["pyarrow", "duckdb"])
def test_a_missing_extra_is_one_sentence(
    broker: Broker, topic: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    words = f"{package} is not installed. Install it with: pip install 'penstock[spark]'"
    refused = run(broker, f"select * from {topic}")
    assert (refused.exit_code, refused.output) == (1, f"Error: {words}\n")
    if package == "pyarrow":
        with pytest.raises(NotInstalled, match=re.escape(words)):
            penstock.table(topic, broker.bootstrap).to_arrow()
