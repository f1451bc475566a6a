"""The level that a service has reached follows from its process, its answer, and the replicas that are in sync."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.apps.control import health_monitor
from penstock.apps.control.health_monitor import HealthMonitor
from penstock.apps.control.health_probes import SERVES, ProbeResult, count_lagging
from penstock.apps.control.services import Health
from penstock.core.model import Address


def child(name: str = "broker-1", pid: int | None = 7, **changes: Any) -> Any:
    process = SimpleNamespace(pid=pid, last_exit="exited with code 3")
    ready = {"pid": pid, "host": "0.0.0.0", "port": 9092, "http_port": 9080}
    return SimpleNamespace(
        **{
            "name": name,
            "process": process,
            "ready": ready,
            "failure": "",
            "is_wanted": True,
            "is_ready": True,
        }
        | changes
    )


def monitor(
    monkeypatch: pytest.MonkeyPatch, *brokers: Any, heard: ProbeResult, lagging: Counter[int] | None
) -> Any:
    """A monitor that has asked once."""
    asked: list[Address] = []

    async def probe(address: Address) -> ProbeResult:
        asked.append(address)
        return heard

    async def find(address: Address) -> Counter[int] | None:
        asked.append(address)
        return lagging

    monkeypatch.setattr(health_monitor, "probe_broker", probe)
    monkeypatch.setattr(health_monitor, "find_lagging", find)
    cluster: Any = SimpleNamespace(metadata=None, brokers=list(brokers), services=[], children=list(brokers))
    made = HealthMonitor(cluster)
    asyncio.run(made.ask_all())
    return made, asked


@pytest.mark.parametrize(
    ("changes", "health", "detail"),
    [
        ({"failure": "too often"}, Health.FATAL, "too often"),
        ({"is_wanted": False, "pid": None}, Health.STOPPED, "stopped on request"),
        ({"pid": None}, Health.DEAD, "exited with code 3, about to be restarted"),
        ({"is_ready": False}, Health.STARTING, "exited with code 3"),
        ({}, Health.HEALTHY, ""),
    ],
)
def test_the_process_comes_first(
    changes: dict[str, Any], health: Health, detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = child(**changes)
    made, _ = monitor(monkeypatch, one, heard=SERVES, lagging=Counter())
    assert made.health_of(one) == (health, detail)


def test_a_restarted_process_is_not_judged_by_its_predecessor(monkeypatch: pytest.MonkeyPatch) -> None:
    one = child()
    made, _ = monitor(monkeypatch, one, heard=SERVES, lagging=Counter())
    one.process.pid = 8
    assert made.health_of(one).health is Health.STARTING


def test_replicas_that_are_not_in_sync_are_those_of_their_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = child("broker-1"), child("broker-2")
    made, asked = monitor(monkeypatch, one, two, heard=SERVES, lagging=Counter({2: 3}))
    assert made.health_of(one).health is Health.HEALTHY
    assert made.health_of(two) == (Health.CATCHING_UP, "3 replicas are not in sync")
    assert asked[-1] == Address("127.0.0.1", 9080) and len(asked) == 3, "one broker is asked for all"


def test_a_broker_that_does_not_serve_is_not_asked_about_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    one, silent = child(), ProbeResult(Health.NOT_SERVING, "no answer")
    made, asked = monitor(monkeypatch, one, heard=silent, lagging=None)
    assert made.health_of(one) == silent and len(asked) == 1


def test_lagging_replicas_are_counted_by_broker() -> None:
    partitions = [
        {"replicas": [1, 2, 3], "isr": [1]},
        {"replicas": [2, 3], "isr": [2, 3]},
        {"replicas": [3, 1], "isr": [1]},
    ]
    assert count_lagging({"partitions": partitions}) == Counter({2: 1, 3: 2})
