"""Spans read from a real broker: all of them, only them, and words when they are not there."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace

import pytest

from penstock.client.access import read_access
from penstock.client.errors import NotFound, RecordsLost, Unreachable
from penstock.client.raw.cluster import Cluster
from penstock.client.raw.fetch import FetchTerms, Span, fetch_span
from penstock.client.raw.loops import chosen_loops
from penstock.testing import running_broker
from topic_fixtures import connected, create, delete, forget, numbered, put

_numbers = itertools.count()


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"orders-{next(_numbers)}"
    create(cluster, name)
    return name


def offsets(cluster: Cluster, span: Span, terms: FetchTerms = FetchTerms()) -> list[int]:  # noqa: B008
    found = []
    for batch in fetch_span(cluster, span, terms, chosen_loops()):
        found += batch.column("offset").to_pylist()
    return found


@pytest.mark.parametrize("codec", range(5))
def test_a_span_is_all_its_records_and_no_others(cluster: Cluster, topic: str, codec: int) -> None:
    for start in range(0, 100, 10):
        put(cluster, topic, numbered(10, start), codec=codec)
    assert offsets(cluster, Span(topic, 0, 7, 93)) == list(range(7, 93))
    tiny = FetchTerms(partition_bytes_max=1)
    assert offsets(cluster, Span(topic, 0, 7, 93), tiny) == list(range(7, 93))


def test_offsets_that_are_gone_end_it_or_are_skipped(cluster: Cluster, topic: str) -> None:
    put(cluster, topic, numbered(10))
    put(cluster, topic, numbered(10))
    forget(cluster, topic, 0, 10)
    with pytest.raises(RecordsLost, match="the log starts at 10"):
        offsets(cluster, Span(topic, 0, 5, 20))
    lenient = replace(FetchTerms(), fails_on_loss=False)
    assert offsets(cluster, Span(topic, 0, 5, 20), lenient) == list(range(10, 20))


def test_offsets_that_never_come_end_it(cluster: Cluster, topic: str) -> None:
    put(cluster, topic, numbered(3))
    hasty = replace(FetchTerms(), progress_ms_max=1, wait_ms=10)
    with pytest.raises(RecordsLost, match="ends at 3"):
        offsets(cluster, Span(topic, 0, 0, 5), hasty)
    with pytest.raises(RecordsLost, match="the log ends at"):
        offsets(cluster, Span(topic, 0, 4, 5))
    assert offsets(cluster, Span(topic, 0, 4, 5), replace(FetchTerms(), fails_on_loss=False)) == []


def test_what_is_not_there_is_named(cluster: Cluster, topic: str) -> None:
    with pytest.raises(NotFound, match="partition 9"):
        offsets(cluster, Span(topic, 9, 0, 1))


def test_a_topic_of_the_same_name_is_not_read_for_another(cluster: Cluster, topic: str) -> None:
    put(cluster, topic, numbered(10))
    span = Span(topic, 0, 2, 8, cluster.topics([topic])[topic].topic_id)
    assert offsets(cluster, span) == list(range(2, 8))
    delete(cluster, topic)
    with pytest.raises(NotFound, match=r"partition 0 .* no longer exists"):
        offsets(cluster, span)
    create(cluster, topic)
    put(cluster, topic, numbered(30))
    with pytest.raises(
        RecordsLost, match=f"topic id {span.topic_id} no longer exists, another topic has the name"
    ):
        offsets(cluster, span)
    assert offsets(cluster, span, replace(FetchTerms(), fails_on_loss=False)) == []
    assert offsets(cluster, span._replace(topic_id="")) == list(range(2, 8)), (
        "without an id, the name decides"
    )


def test_a_broker_that_comes_back_is_read_on() -> None:
    with running_broker() as mortal, connected(mortal) as cluster:
        create(cluster, "orders")
        for start in range(0, 50, 10):
            put(cluster, "orders", numbered(10, start))
        found = []
        small = FetchTerms(partition_bytes_max=1)
        for batch in fetch_span(cluster, Span("orders", 0, 0, 50), small, chosen_loops()):
            found += batch.column("offset").to_pylist()
            if len(found) == 20:
                mortal.kill()
                threading.Timer(0.2, mortal.start).start()
        assert found == list(range(50))


def test_a_broker_that_stays_away_is_said_with_its_address() -> None:
    with running_broker(storage="memory") as mortal:
        options = {"bootstrap.servers": mortal.bootstrap, "default.api.timeout.ms": "300"}
        with Cluster(read_access(options)) as cluster:
            create(cluster, "orders")
            mortal.kill()
            with pytest.raises(Unreachable, match=mortal.bootstrap):
                offsets(cluster, Span("orders", 0, 0, 50))
