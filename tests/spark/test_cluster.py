"""The same reads away from this process: on a standalone cluster, over Spark Connect, without a Java, next to Kafka."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.reference.__main__ import running_kafka
from penstock.client.access import read_access
from penstock.client.raw.cluster import Cluster
from penstock.core.model import Header, NewRecord
from penstock.testing import Broker
from spark.clusters import connect_server, environment, jars_of, standalone
from spark.jobs import run_job
from topic_fixtures import connected, create, numbered, put

RECORDS = 300


def fill(cluster: Cluster, topic: str) -> None:
    create(cluster, topic, 2)
    for partition in (0, 1):
        put(cluster, topic, numbered(RECORDS // 2), partition=partition)


@pytest.fixture(scope="module")
def topic(broker: Broker) -> Iterator[str]:
    with connected(broker) as cluster:
        fill(cluster, "orders")
    yield "orders"


def test_a_job_over_connect_on_a_standalone_cluster(broker: Broker, topic: str, tmp_path: Path) -> None:
    with standalone(tmp_path) as master, connect_server(tmp_path, master) as remote:
        found = run_job(
            "count", environment(), master=remote, bootstrap=broker.bootstrap, topic=topic, home=str(tmp_path)
        )
    assert found == {"batch": RECORDS, "stream": RECORDS}


def test_every_thread_can_write_over_connect(broker: Broker, topic: str, tmp_path: Path) -> None:
    with connected(broker) as cluster:
        create(cluster, "copied", 2)
    with connect_server(tmp_path, "local[2]") as remote:
        place = {"master": remote, "bootstrap": broker.bootstrap, "home": str(tmp_path)}
        found = run_job("copy_in_a_thread", environment(), topic=topic, target="copied", **place)
    assert found == {"written": 2 * RECORDS, "is_same_session": True}


@pytest.mark.slow
def test_a_driver_of_its_own_on_a_standalone_cluster(broker: Broker, topic: str, tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        found = run_job(
            "count", environment(), master=master, bootstrap=broker.bootstrap, topic=topic, home=str(tmp_path)
        )
    assert found == {"batch": RECORDS, "stream": RECORDS}


def test_without_java_on_the_path_and_without_compiled_loops(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """The Java is then the one in the wheel."""
    bare = tmp_path / "bin"
    bare.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in sorted(Path(place).glob("*")) if place else ():
            if not program.name.startswith("java"):
                (bare / program.name).unlink(missing_ok=True)
                (bare / program.name).symlink_to(program)
    words = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    paths = {"PATH": str(bare), "PYTHONPATH": environment()["PYTHONPATH"], "XDG_CACHE_HOME": str(tmp_path)}
    found = run_job(
        "count",
        {**words, **paths, "PENSTOCK_DECODER": "interpreted"},
        master="local[2]",
        bootstrap=broker.bootstrap,
        topic=topic,
        home=str(tmp_path),
    )
    assert found == {"batch": RECORDS, "stream": RECORDS}


@pytest.mark.slow
def test_sparks_own_connector_reads_and_writes_penstock(broker: Broker) -> None:
    jars = jars_of(Path(__file__).parent / "connector" / "pom.xml")
    with connected(broker) as cluster:
        create(cluster, "both", 2)
        create(cluster, "back", 2)
        for codec in range(5):
            made = [
                NewRecord(b"k", b"v%d" % codec, (Header("h", b"x"), Header("n", None))),
                NewRecord(None, None),
            ]
            put(cluster, "both", made, partition=codec % 2, codec=codec)
    found = run_job(
        "compare",
        environment(),
        bootstrap=broker.bootstrap,
        topic="both",
        back="back",
        jars=",".join(str(path) for path in sorted(jars.glob("*.jar"))),
    )
    assert found == {"schemas_equal": True, "rows": 10, "different": 0, "lost": 0}


@pytest.mark.slow
def test_ours_reads_apache_kafka(tmp_path: Path) -> None:
    jars_of(Path(__file__).parents[1] / "compat" / "reference" / "pom.xml")
    with running_kafka() as bootstrap:
        with Cluster(read_access({"bootstrap.servers": bootstrap})) as cluster:
            fill(cluster, "orders")
        found = run_job(
            "count",
            environment(),
            master="local[2]",
            bootstrap=bootstrap,
            topic="orders",
            home=str(tmp_path),
        )
    assert found == {"batch": RECORDS, "stream": RECORDS}
