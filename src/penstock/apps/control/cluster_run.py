"""Runs a local cluster until it is told to stop, for `penstock cluster up` and `penstock start --cores`.

A directory belongs to one coordinator at a time. Frontends (console, HTTP API, terminal) are opened once all services
are ready and closed before these stop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from pathlib import Path

from penstock.apps.control.cluster_plan import ClusterPlan
from penstock.apps.control.cluster_ready import ClusterReady
from penstock.apps.control.cluster_services import ClusterServices
from penstock.apps.control.health_monitor import HealthMonitor
from penstock.apps.control.local_cluster import LocalCluster
from penstock.apps.control.services import Services
from penstock.apps.process import CLUSTER_FILE, lock_directory
from penstock.apps.ready import StartError, write_json
from penstock.core.model import Address
from penstock.node.checkpoint import IDENTITY_FILE
from penstock.node.runtime.data_directory import DIRECTORY_MODE

STOP_REPORT = "last-stop.json"
"""Exit codes of the last clean stop by process, for `cluster down`."""

SERVING_S_MAX = 30.0
"""How long services that are ready may take to serve before the cluster counts as ready without them."""

Frontend = Callable[[Services], AbstractAsyncContextManager[object]]
"""Opens a way to observe and command the services. If it yields an Address, that is shown to the user."""

logger = logging.getLogger("penstock.cluster")


def run_cluster(
    plan: ClusterPlan,
    on_ready: Callable[[ClusterReady], None],
    *,
    logs_to_files: bool,
    outlives: bool = False,
    frontends: Mapping[str, Frontend] | None = None,
) -> int:
    """Run until SIGTERM, SIGINT or SIGHUP; returns the exit code. Raises StartError if it cannot start.

    With `outlives`, the processes run on if this one is killed, and the next run adopts them. Frontends are by name.
    """
    if (plan.root / IDENTITY_FILE).exists():
        raise StartError(
            f"The data directory {plan.root} holds the data of a single broker; choose another --data-dir for a"
            " cluster, or start that broker with `penstock start`."
        )
    lock = lock_directory(plan.root, (), "local cluster")
    try:
        may_adopt = _prepare_directories(plan, outlives)
        run = ClusterRun(plan, frontends or {}, logs_to_files=logs_to_files)
        return asyncio.run(run.run(on_ready, outlives=outlives, may_adopt=may_adopt))
    finally:
        lock.release()


def _prepare_directories(plan: ClusterPlan, outlives: bool) -> bool:
    """Returns whether processes of the last run were to outlive it."""
    marker = plan.root / CLUSTER_FILE
    try:
        for directory in (plan.log_dir, plan.run_dir):
            directory.mkdir(DIRECTORY_MODE, exist_ok=True)
        did_outlive = marker.exists() and bool(json.loads(marker.read_text("utf-8")).get("outlives"))
        marker.write_text(json.dumps({"layout": 1, "outlives": outlives}) + "\n", encoding="utf-8")
        (plan.root / STOP_REPORT).unlink(missing_ok=True)
    except OSError as error:
        raise StartError(f"Cannot use the data directory {plan.root}: {error.strerror}.") from error
    except ValueError as error:
        raise StartError(f"Cannot read {marker}: {error}. Remove it, then start again.") from error
    return did_outlive


class ClusterRun:
    """One run of a cluster: signals, frontends, the order of start and stop."""

    def __init__(self, plan: ClusterPlan, frontends: Mapping[str, Frontend], *, logs_to_files: bool) -> None:
        self._plan = plan
        self._frontends = frontends
        self._logs_to_files = logs_to_files

    async def run(self, on_ready: Callable[[ClusterReady], None], *, outlives: bool, may_adopt: bool) -> int:
        """Run until a signal; returns 0 if every process stopped cleanly. A second signal kills them."""
        loop = asyncio.get_running_loop()
        self._stops: asyncio.Queue[None] = asyncio.Queue()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # started with nohup, or in the background
                loop.add_signal_handler(number, self._stops.put_nowait, None)
        self._cluster = LocalCluster(
            self._plan, logs_to_files=self._logs_to_files, outlives=outlives, may_adopt=may_adopt
        )
        stopped = loop.create_task(self._stops.get())
        try:
            await self._serve(on_ready, stopped)
        except BaseException:
            stopped.cancel()
            await self._cluster.give_up()
            raise
        logger.info("stopping")
        is_clean = await self._stop()
        logger.info("stopped cleanly" if is_clean else "stopped; the next start must recover")
        return 0 if is_clean else 1

    async def _serve(self, on_ready: Callable[[ClusterReady], None], stopped: asyncio.Task[None]) -> None:
        """Start, then serve until the signal. A signal ends the start as well."""
        monitor = HealthMonitor(self._cluster)
        starting = asyncio.get_running_loop().create_task(self._start(monitor))
        try:
            await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                return
            ready = starting.result()
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        services = ClusterServices(
            self._cluster, monitor, str(ready.coordinator["cluster_id"]), ready.bootstrap, self._shut_down
        )
        async with AsyncExitStack() as opened:
            await opened.enter_async_context(monitor.running())
            doors = dict[str, Address]()
            for name, frontend in self._frontends.items():
                yielded = await opened.enter_async_context(frontend(services))
                if isinstance(yielded, Address):
                    doors[name] = yielded
            on_ready(replace(ready, doors=doors))
            await stopped

    async def _start(self, monitor: HealthMonitor) -> ClusterReady:
        ready = await self._cluster.start()
        try:
            async with asyncio.timeout(SERVING_S_MAX):
                await monitor.await_serving()
        except TimeoutError:
            logger.warning(
                "%s: not serving after %.0f s, going on without",
                ", ".join(monitor.not_serving()),
                SERVING_S_MAX,
            )
        return ready

    def _shut_down(self) -> None:
        self._stops.put_nowait(None)

    async def _stop(self) -> bool:
        """Stop everything; True if all of it exited cleanly."""
        loop = asyncio.get_running_loop()
        stopping, again = loop.create_task(self._cluster.stop()), loop.create_task(self._stops.get())
        await asyncio.wait({stopping, again}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            logger.warning("second signal: killing all processes of the cluster")
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)
            await self._cluster.kill()
            return False
        again.cancel()
        codes = stopping.result()
        write_json(self._plan.root / STOP_REPORT, codes)
        return not any(codes.values())


def read_stop_report(root: Path) -> Mapping[str, int]:
    """Exit codes by process of the last run; empty if it was not stopped in order."""
    try:
        codes: dict[str, int] = json.loads((root / STOP_REPORT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return codes
