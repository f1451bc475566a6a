"""The coordinator's HTTP API over a real socket: answers, commands, token, Host and Origin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from memory_services import TOKEN, MemoryFacts, MemoryServices
from penstock.apps.control.console import Console
from penstock.apps.control.http_api import http_api
from penstock.apps.control.services import Health
from penstock.apps.gateways.brokers import ask_coordinator, broker_addresses
from penstock.core.model import Address

BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Served:
    def __init__(self, services: MemoryServices, facts: MemoryFacts, client: httpx.AsyncClient) -> None:
        self.services, self.facts, self.client = services, facts, client

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.client.get(path, headers=headers)

    async def post(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return await self.client.post(path, json=body, headers={**BEARER, **headers})


@asynccontextmanager
async def served(*, token: str | None = TOKEN) -> AsyncIterator[Served]:
    services, facts = MemoryServices(), MemoryFacts()
    console = Console(services, facts)
    async with (
        http_api(services, Address("127.0.0.1", 0), token=token, console=console) as address,
        httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, timeout=60) as client,
    ):
        yield Served(services, facts, client)


def in_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(test())  # type: ignore[arg-type]

    return run


@in_loop
async def test_reads() -> None:
    async with served() as at:
        status = (await at.get("/api/v1/status")).json()
        assert status["cluster_id"] == at.services.cluster_id
        assert [one["name"] for one in status["services"]] == list(at.services.names)
        assert (await at.get("/api/v1/services/broker-2")).json() == status["services"][2]
        assert (await at.get("/api/v1/topics")).json()["topics"][0]["under_replicated"] == 2
        assert (await at.get("/api/v1/leaders")).json()["brokers"][0]["leads"] == 2
        assert (await at.get("/api/v1/lag")).json()["groups"][0]["lag"] == 17
        at.facts.is_silent = True
        silent = await at.get("/api/v1/topics")
        assert (silent.status_code, silent.json()["code"]) == (503, "ClusterUnavailable")


@in_loop
async def test_changes() -> None:
    async with served() as at:
        for act, name in (
            ("stop", "broker-3"),
            ("start", "broker-3"),
            ("restart", "producer"),
            ("kill", "consumer"),
        ):
            found = await at.post(f"/api/v1/services/{name}/{act}")
            assert found.status_code == 200, found.text
            assert found.json()["service"]["name"] == name
            assert at.services.done[-1] == f"{act} {name}"
        assert (await at.post("/api/v1/restart")).json()["done"] == "restarted"
        at.services.refuses = "It is busy; try again."
        refused = await at.post("/api/v1/services/broker-1/stop")
        assert refused.status_code == 409
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json() == {
            "type": "about:blank",
            "title": "Conflict",
            "status": 409,
            "code": "CommandFailed",
            "detail": "It is busy; try again.",
            "what_to_do": "",
        }


@in_loop
async def test_changes_and_logs_need_the_token() -> None:
    async with served() as at:
        for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
            for method, path in (
                ("POST", "/api/v1/services/broker-3/stop"),
                ("POST", "/api/v1/restart"),
                ("GET", "/api/v1/services/broker-3/logs"),
            ):
                found = await at.client.request(method, path, headers=given)
                assert (found.status_code, found.json()["code"]) == (401, "TokenRequired"), path
                assert found.headers["www-authenticate"].startswith("Bearer")
            console = await at.client.post("/api/v1/console", json={"command": "shutdown"}, headers=given)
            assert console.status_code == 401
        assert at.services.done == []
        assert (await at.client.post("/api/v1/console", json={"command": "status"})).status_code == 200


@in_loop
async def test_logs() -> None:
    async with served() as at:
        assert len((await at.get("/api/v1/services/broker-2/logs", **BEARER)).json()["lines"]) == 20
        two = await at.get("/api/v1/services/broker-2/logs?lines=2", **BEARER)
        assert two.json() == {"service": "broker-2", "lines": ["line 48 of broker-2", "line 49 of broker-2"]}
        for query in ("lines=0", "lines=x", "lines=1001", "line=3", "lines=1&lines=2"):
            assert (await at.get(f"/api/v1/services/broker-2/logs?{query}", **BEARER)).status_code == 400, (
                query
            )


@in_loop
async def test_lines_of_the_console() -> None:
    async with served() as at:
        found = (await at.post("/api/v1/console", {"command": "broker stop 3"})).json()
        assert found["text"] == "broker-3: stopped; it is stopped now"
        assert (found["exit_status"], found["leaves"], found["json"]) == (0, False, False)
        assert found["content"]["service"]["health"] == "stopped"
        nonsense = await at.post("/api/v1/console", {"command": "stauts"})
        assert (nonsense.status_code, nonsense.json()["code"]) == (400, "InvalidCommand")
        assert "status" in nonsense.json()["detail"]
        assert (await at.post("/api/v1/console", {"command": "broker stop 9"})).status_code == 404
        for body in ({}, {"command": 3}, {"command": "status", "more": 1}, [], "status"):
            assert (await at.post("/api/v1/console", body)).status_code == 400, body
        assert (await at.post("/api/v1/console")).status_code == 415
        too_large = await at.post("/api/v1/console", {"command": "x" * 70_000})
        assert too_large.status_code == 413


@in_loop
async def test_what_does_not_exist() -> None:
    async with served() as at:
        missing = await at.get("/api/v1/services/broker-9")
        assert (missing.status_code, missing.json()["code"]) == (404, "UnknownService")
        assert "broker-5" in missing.json()["what_to_do"]
        assert (await at.post("/api/v1/services/broker-9/stop")).status_code == 404
        assert (await at.get("/nothing")).json()["code"] == "NoSuchPath"
        wrong = await at.get("/api/v1/restart")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "OPTIONS, POST")
        assert (await at.post("/api/v1/services/broker-1/stop", {"force": True})).status_code == 400


@in_loop
async def test_foreign_hosts_and_pages() -> None:
    async with served(token=None) as at:
        rebound = await at.get("/api/v1/status", Host="evil.example")
        assert (rebound.status_code, rebound.json()["code"]) == (421, "UnknownHost")
        assert (await at.get("/api/v1/status", Host="localhost:8080")).status_code == 200
        page = await at.post("/api/v1/services/broker-3/stop", Origin="https://evil.example")
        assert (page.status_code, page.json()["code"]) == (403, "ForeignOrigin")
        plain = await at.client.post(
            "/api/v1/console", content='{"command": "broker stop 3"}', headers={"Content-Type": "text/plain"}
        )
        assert plain.status_code == 415
        assert at.services.done == []


@in_loop
async def test_the_brokers_as_clients_of_a_coordinator_look_for_them() -> None:
    async with served() as at:
        at.services.set("broker-2", Health.STOPPED)
        content = (await at.get("/api/v1/cluster")).json()
        assert content["cluster_id"] == at.services.cluster_id
        assert content["brokers"][0]["addresses"] == {"kafka": "127.0.0.1:9092", "http": "127.0.0.1:9192"}
        assert [one["fenced"] for one in content["brokers"]] == [False, True, False, False, False]
        assert broker_addresses(content) == [f"127.0.0.1:{port}" for port in (9092, 9094, 9095, 9096)]
        asked = await asyncio.to_thread(ask_coordinator, str(at.client.base_url.netloc.decode()))
        assert asked.split(",") == broker_addresses(content)


@in_loop
async def test_health_and_metrics() -> None:
    async with served() as at:
        healthy = await at.get("/health")
        assert (healthy.status_code, healthy.json()["status"]) == (200, "healthy")
        at.services.set("broker-2", Health.STOPPED)
        assert (await at.get("/health")).status_code == 200, "it was stopped on request"
        at.services.set("broker-3", Health.FATAL)
        fatal = await at.get("/health")
        assert (fatal.status_code, fatal.json()["status"]) == (503, "fatal")
        assert fatal.json()["services"]["broker-2"] == "stopped"
        families = {one.name: one for one in text_string_to_metric_families((await at.get("/metrics")).text)}
        up = {one.labels["service"]: one.value for one in families["penstock_service_up"].samples}
        assert (up["broker-1"], up["broker-2"], up["broker-3"]) == (1, 0, 0)
        has = [
            (one.labels["service"], one.labels["health"])
            for one in families["penstock_service_health"].samples
            if one.value
        ]
        assert ("broker-3", "fatal") in has and len(has) == len(at.services.names)
        assert len(families["penstock_service_restarts"].samples) == len(at.services.names)
        assert len(families["penstock_service_uptime_seconds"].samples) == len(at.services.names) - 2
