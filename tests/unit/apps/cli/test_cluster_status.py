"""What the views of a cluster say, from given content."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from penstock.apps.cli import cluster_status
from penstock.apps.cli.cluster_source import HTTP, KAFKA, ClusterSource, Found
from penstock.apps.cli.cluster_status import VIEWS, state_of
from penstock.apps.cli.view import View

BROKER = {
    "id": 1,
    "addresses": {"kafka": "a:9092", "http": "a:8080"},
    "rack": "r1",
    "epoch": 4,
    "fenced": False,
    "stopping": False,
    "draining": False,
    "session_alive": True,
    "leaders": 3,
    "replicas": 3,
}
FENCED = {**BROKER, "id": 2, "fenced": True, "session_alive": False, "leaders": 0}
CONTENT: dict[str, Any] = {
    "cluster_id": "abc",
    "broker": 1,
    "controller": 1,
    "controller_epoch": 9,
    "metadata_index": 40,
    "partitions": 6,
    "offline_partitions": 3,
    "under_replicated_partitions": 4,
    "under_min_isr_partitions": 3,
    "brokers": [BROKER, FENCED],
}

PARTITION = {
    "topic": "orders",
    "partition": 0,
    "leader": 1,
    "leader_epoch": 3,
    "partition_epoch": 9,
    "replicas": [1, 2, 3],
    "isr": [1],
    "min_isr": 2,
    "elr": [2],
    "last_known_elr": [],
    "offline": [3],
    "adding": [],
    "removing": [],
}


class Canned(ClusterSource):
    """Answers what it was given."""

    def __init__(self, found: Found) -> None:
        self._canned = found

    def overview(self) -> Found:
        return self._canned

    def gossip(self) -> Found:
        return self._canned

    def scrub(self) -> dict[str, Any] | None:
        return {"differences": 2, "brokers": [{"id": 1}]}


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ({}, "active"),
        ({"draining": True}, "draining"),
        ({"draining": True, "stopping": True}, "stopping"),
        ({"fenced": True, "stopping": True}, "fenced"),
        ({"stopping": None, "draining": None}, "active"),
    ],
)
def test_the_state_of_a_broker_is_one_word(flags: dict[str, Any], word: str) -> None:
    assert state_of({**BROKER, **flags}) == word


def test_status(capsys: pytest.CaptureFixture[str]) -> None:
    cluster_status._read_status(Canned(Found(CONTENT, HTTP))).show("table")
    out, err = capsys.readouterr()
    assert not err
    assert "Cluster abc: 2 brokers (1 active, 1 fenced)" in out
    assert "broker 1, epoch 9" in out and "index 40" in out
    assert "6, 3 without a leader, 4 under-replicated, 3 below min.insync.replicas" in out
    assert "penstock cluster topics --offline --under-replicated --under-min-isr" in out
    assert "a:9092" in out and "ended" in out
    assert "scrub        2 differences found" in out


def test_status_of_a_healthy_cluster() -> None:
    healthy = dict.fromkeys(("offline_partitions", "under_replicated_partitions"), 0)
    view = cluster_status._read_status(
        Canned(Found({**CONTENT, **healthy, "under_min_isr_partitions": None}, KAFKA))
    )
    assert view.lines[-1].endswith("6, all with a leader and in sync")


def test_partitions_are_listed_by_their_health(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Listing(Canned):
        def partitions(self, filters: Any = (), *, with_internal: bool) -> Found:
            asked.append((list(filters), with_internal))
            return Found({"partitions": [PARTITION]}, HTTP)

    def no_bootstrap(bootstrap: str, broker_id: int | None = None) -> ClusterSource:
        return Listing(Found({}, HTTP))

    monkeypatch.setattr("penstock.apps.cli.cluster_source.ClusterSource", no_bootstrap)
    done = CliRunner().invoke(cluster_status.topics, ["--under-replicated", "--at-min-isr"])
    assert asked == [(["under_replicated", "at_min_isr"], True)]
    assert "orders" in done.output and "1, 2, 3" in done.output and "eligible" in done.output
    CliRunner().invoke(cluster_status.topics, ["-o", "json"])
    assert asked[1:] == [([], False)]


def test_what_kafka_calls_do_not_tell_is_a_dash_and_the_reason_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    unknown = dict.fromkeys(("epoch", "stopping", "draining", "session_alive", "rack"))
    content = {
        **CONTENT,
        "metadata_index": None,
        "controller_epoch": None,
        "brokers": [{**BROKER, **unknown}],
    }
    view = cluster_status._read_status(Canned(Found(content, KAFKA, "broker 1 has none")))
    view.show("table")
    out, err = capsys.readouterr()
    assert "no HTTP door answers: broker 1 has none" in err
    assert "index -" in out and "controller   broker 1\n" in out
    view.show("json")
    assert json.loads(capsys.readouterr().out)["source"] == KAFKA


def test_a_cluster_without_a_controller(capsys: pytest.CaptureFixture[str]) -> None:
    content = {**CONTENT, "controller": None}
    cluster_status._read_controller(Canned(Found(content, HTTP))).show("table")
    assert "none at the moment" in capsys.readouterr().out
    cluster_status._read_controller(Canned(Found(CONTENT, HTTP))).show("json")
    shown = {"controller": 1, "epoch": 9, "address": "a:9092", "source": HTTP}
    assert json.loads(capsys.readouterr().out) == shown


def test_gossip_that_is_off(capsys: pytest.CaptureFixture[str]) -> None:
    content = {"broker": 1, "on": False, "health": 0, "controller": None, "peers": []}
    cluster_status._read_gossip(Canned(Found(content, HTTP))).show("table")
    assert capsys.readouterr().out == "Gossip is not running on broker 1.\n"


def test_a_view_on_a_terminal_cannot_control_it() -> None:
    console = Console(record=True, width=100, file=None, quiet=False)
    with console.capture() as capture:
        console.print(View({}, ["a\x1b[31mb"], ("topic",), [("x\x1b]0;y",)]).render())
    assert "\x1b" not in capture.get()


def test_every_view_can_be_watched() -> None:
    for command in VIEWS:
        assert "--watch" in [flag for param in command.params for flag in param.opts], command.name
