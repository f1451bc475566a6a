"""Readiness: what a broker says while it takes part, while it is fenced, and while it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from cluster_nodes import ClusterNodes, on_a_cluster, until
from http_client import HttpClient
from penstock.apps.doorways import Doorways
from penstock.core.machines.cluster.brokers import decide_fence
from penstock.node.cluster.metadata_log import BrokerSession

from .conftest import Stage


def test_a_single_broker_has_no_session(play: Callable[..., None]) -> None:
    async def test(stage: Stage) -> None:
        answer = await stage.client().ask("GET", "/readyz")
        assert (answer.status, answer.json) == (200, {"status": "ready", "offline_partitions": []})

    play(test)


def test_a_broker_that_stops_says_so(play: Callable[..., None]) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        await client.ask("GET", "/readyz")
        stage.doors.listeners["http"].dialect.release_waiting()
        answer = await client.ask("GET", "/readyz")
        assert (answer.status, answer.json["status"]) == (503, "stopping")
        assert answer.json["reason"] == "this broker is stopping"

    play(test)


def test_a_fenced_broker_is_not_ready_until_it_has_joined_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(nodes: ClusterNodes) -> None:
        broker = nodes.brokers[2]
        assert broker.membership is not None
        broker.settings = replace(broker.settings, http_port=0)
        client = HttpClient(Doorways(broker))
        ready = {"status": "ready", "offline_partitions": [], "session_alive": True}
        assert (await client.ask("GET", "/readyz")).json == ready
        membership, enter, gate = broker.membership, broker.membership._enter, asyncio.Event()

        async def enter_later(session: BrokerSession) -> None:
            await gate.wait()
            await enter(session)

        monkeypatch.setattr(membership, "_enter", enter_later)
        epoch = membership.epoch
        await nodes.converged()
        await nodes.brokers[1].change(lambda catalog: decide_fence(catalog.cluster, 2, epoch))
        await until(lambda: not broker.is_online)
        answer = await client.ask("GET", "/readyz")
        assert (answer.status, answer.json["status"], answer.json["session_alive"]) == (503, "offline", True)
        assert "fenced" in answer.json["reason"]
        gate.set()
        await until(lambda: broker.is_online)
        assert (await client.ask("GET", "/readyz")).json == ready
        await client.hang_up()

    on_a_cluster(play)


def test_a_broker_without_a_session_serves_on() -> None:
    async def play(nodes: ClusterNodes) -> None:
        broker = nodes.brokers[2]
        broker.settings = replace(broker.settings, http_port=0)
        client = HttpClient(Doorways(broker))
        assert broker.membership is not None and broker.membership._session is not None
        broker.membership._session.end()
        answer = await client.ask("GET", "/readyz")
        assert (answer.status, answer.json["session_alive"]) == (200, False)
        await until(lambda: broker.membership is not None and broker.membership.has_session)
        await client.hang_up()

    on_a_cluster(play)


def test_a_broker_that_has_not_joined_is_not_ready() -> None:
    async def play(nodes: ClusterNodes) -> None:
        broker = nodes.brokers[3]
        assert broker.membership is not None
        await broker.membership.leave()
        assert not broker.is_online
        assert broker.unready_reason == "this broker has not joined its cluster"

    on_a_cluster(play)
