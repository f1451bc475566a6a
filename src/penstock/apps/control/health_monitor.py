"""Knows the health of every service: asks each of them every second, and answers from what it heard last."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.apps.control.cluster_child import ClusterChild
from penstock.apps.control.cluster_plan import reachable_host
from penstock.apps.control.health_probes import (
    ProbeResult,
    find_lagging,
    probe_broker,
    probe_metadata,
    probe_service,
)
from penstock.apps.control.local_cluster import LocalCluster
from penstock.apps.control.services import Health
from penstock.core.model import Address

ROUND_S = 1.0
SERVING_POLL_S = 0.1

logger = logging.getLogger("penstock.cluster")


class HealthMonitor:
    """Health of the children of a cluster. Needs a running loop."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._heard: dict[str, tuple[int, ProbeResult]] = {}
        """What was heard of each process last, with the id of that process."""
        self._lagging: Counter[int] = Counter()
        """Replicas that are not in sync, by broker."""

    async def await_serving(self) -> None:
        """Ask all services until every one of them serves its clients."""
        while True:
            await self.ask_all()
            if not self.not_serving():
                return
            await asyncio.sleep(SERVING_POLL_S)

    def not_serving(self) -> list[str]:
        """Names of services that do not serve their clients."""
        ranks = {child.name: self.health_of(child).health.rank for child in self._cluster.children}
        return [name for name, rank in ranks.items() if rank < Health.CATCHING_UP.rank]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ask all services every second until the block ends."""
        asking = asyncio.get_running_loop().create_task(self._ask_forever())
        try:
            yield
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    def health_of(self, child: ClusterChild) -> ProbeResult:
        """The level that a service has reached, and why not the next one."""
        process = child.process
        if child.failure:
            return ProbeResult(Health.FATAL, child.failure)
        if not child.is_wanted:
            return ProbeResult(Health.STOPPED, "stopped on request")
        if process.pid is None:
            return ProbeResult(Health.DEAD, f"{process.last_exit}, about to be restarted")
        if not child.is_ready:
            return ProbeResult(Health.STARTING, process.last_exit)
        pid, heard = self._heard.get(child.name, (0, None))
        if heard is None or pid != process.pid:
            return ProbeResult(Health.STARTING, "not asked yet")
        if heard.health is Health.HEALTHY and (lagging := self._lagging_of(child)):
            return ProbeResult(Health.CATCHING_UP, f"{lagging} replicas are not in sync")
        return heard

    def _lagging_of(self, child: ClusterChild) -> int:
        if child not in self._cluster.brokers:
            return 0
        return self._lagging[self._cluster.brokers.index(child) + 1]

    async def _ask_forever(self) -> None:
        while True:
            await asyncio.sleep(ROUND_S)
            await self.ask_all()

    async def ask_all(self) -> None:
        """One round: all services at the same time, then one broker about the replicas of all."""
        ready = [child for child in self._cluster.children if child.is_ready]
        await asyncio.gather(*(self._ask(child) for child in ready))
        await self._ask_lagging()

    async def _ask(self, child: ClusterChild) -> None:
        cluster, pid = self._cluster, child.process.pid
        if pid is None:
            return
        address = _address(child, "port")
        if child is cluster.metadata:
            result = await probe_metadata(cluster.metadata_target(), cluster.plan.brokers[0].settings.node_id)
        elif child in cluster.services:
            result = await probe_service(address)
        else:
            result = await probe_broker(address)
        before = self._heard.get(child.name)
        self._heard[child.name] = (pid, result)
        if before is not None and before[0] == pid and before[1].health is not result.health:
            logger.log(
                logging.INFO if result.health is Health.HEALTHY else logging.WARNING,
                *("%s is %s%s", child.name, result.health.value, result.detail and f": {result.detail}"),
            )

    async def _ask_lagging(self) -> None:
        """Without an HTTP door nothing is known of replicas: brokers that serve count as healthy."""
        for child in self._cluster.brokers:
            pid, heard = self._heard.get(child.name, (0, None))
            is_serving = heard is not None and heard.health is Health.HEALTHY and pid == child.process.pid
            if is_serving and "http_port" in child.ready:
                lagging = await find_lagging(_address(child, "http_port"))
                if lagging is not None:
                    self._lagging = lagging
                    return


def _address(child: ClusterChild, port: str) -> Address:
    return Address(reachable_host(str(child.ready["host"])), int(str(child.ready[port])))
