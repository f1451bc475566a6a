"""The sessions of a dead broker end at the coordinator for whoever knows the secret, and no others do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from manual_ports import Hand, PromptWorkers
from metadata_peer import SECRET
from penstock.core.errors import ClusterForbidden
from penstock.core.model import Address
from penstock.node.cluster.dead_sessions import end_dead_sessions
from penstock.node.cluster.leases import Leases
from penstock.node.cluster.metadata_link import CoordinatorAccess
from penstock.node.metadata_coordinator import start_coordinator
from penstock.node.runtime.clock import SystemRng
from penstock.node.settings import Settings


def with_coordinator(scene: Callable[[Address, Leases], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        coordinator = await start_coordinator(Hand(workers=PromptWorkers()).runtime, Settings(), SECRET)
        address = await coordinator.listen(Address("127.0.0.1", 0))
        try:
            for name, holder in (("broker-1", 1), ("broker-2", 2), ("controller", 2)):
                assert coordinator._leases.open(name, holder, name.encode()) is not None
            await scene(address, coordinator._leases)
        finally:
            await coordinator.stop()

    asyncio.run(main())


def alive(leases: Leases) -> list[str]:
    return [one.name for one in leases.table.live]


def test_all_sessions_of_the_broker_end() -> None:
    async def scene(address: Address, leases: Leases) -> None:
        access = CoordinatorAccess(address, SECRET, 2)
        assert await end_dead_sessions(access, SystemRng(), lambda: True) == 2
        assert alive(leases) == ["broker-1"]
        assert await end_dead_sessions(access, SystemRng(), lambda: True) == 0

    with_coordinator(scene)


def test_nothing_ends_once_another_process_has_started() -> None:
    async def scene(address: Address, leases: Leases) -> None:
        access = CoordinatorAccess(address, SECRET, 2)
        assert await end_dead_sessions(access, SystemRng(), lambda: False) == 0
        assert alive(leases) == ["broker-1", "broker-2", "controller"]

    with_coordinator(scene)


def test_the_secret_must_be_known() -> None:
    async def scene(address: Address, leases: Leases) -> None:
        with pytest.raises(ClusterForbidden):
            await end_dead_sessions(CoordinatorAccess(address, b"x" * 32, 2), SystemRng(), lambda: True)
        assert len(alive(leases)) == 3

    with_coordinator(scene)
