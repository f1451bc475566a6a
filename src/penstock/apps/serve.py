"""Runs a broker in the foreground: locks the data directory, recovers, opens the doors, stops cleanly on a signal."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from penstock.apps.doorways import KAFKA, Doorways
from penstock.apps.process import CLUSTER_FILE, done_before, lock_directory, loop_factory, settle_memory
from penstock.apps.ready import ReadyInfo, StartError
from penstock.core.errors import BrokerError
from penstock.core.machines.cluster.values import GOSSIP_LISTENER
from penstock.core.model import Storage
from penstock.core.ports import Files
from penstock.node.broker import OWN_NAMES, Broker, start_broker
from penstock.node.cluster.metadata_log import OpenSharedLog
from penstock.node.connections.addresses import Address, advertised_address
from penstock.node.runtime.clock import SystemClock, SystemRng
from penstock.node.runtime.disk import DiskFiles
from penstock.node.runtime.memory import MemoryFiles
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.workers import ThreadWorkers
from penstock.node.settings import Settings

logger = logging.getLogger("penstock.serve")

_SPARE_FILES = 64
"""Descriptors for everything except log files and connections: listeners, the reserve, threads, temporary files."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_LOG_FILES_MIN = 16
_DESCRIPTORS_PER_CONNECTION = 2
"""The socket, and the log file being sent over it."""


def serve(settings: Settings, on_ready: Callable[[ReadyInfo], None]) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code. Raises StartError if it cannot start."""
    is_on_disk = settings.storage is Storage.DISK
    if is_on_disk and (Path(settings.data_dir) / CLUSTER_FILE).exists():
        raise StartError(
            f"The data directory {settings.data_dir} holds a local cluster; start it with `penstock cluster up` or"
            " `penstock start --cores N`, or choose another --data-dir."
        )
    lock = lock_directory(Path(settings.data_dir), OWN_NAMES, "broker") if is_on_disk else None
    settings = fit_to_descriptors(settings, _raise_file_limit(settings))
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(_serve_with_metadata(settings, on_ready))
    finally:
        if lock is not None:
            lock.release()


def _raise_file_limit(settings: Settings) -> int:
    """Raise the descriptor limit as far as needed and allowed; returns the available number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _descriptors_wanted(settings)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def _descriptors_wanted(settings: Settings) -> int:
    return settings.open_files_max + _DESCRIPTORS_PER_CONNECTION * settings.connections_max + _SPARE_FILES


def fit_to_descriptors(settings: Settings, allowed: int) -> Settings:
    """Reduce connections and open log files to the number of descriptors that the system allows.

    A third goes to log files, the rest to connections: without this, the first thing to fail would be a flush. Raises
    StartError if not even one connection is left.
    """
    wanted = _descriptors_wanted(settings)
    if allowed >= wanted:
        return settings
    left = allowed - _SPARE_FILES
    files = min(settings.open_files_max, max(_LOG_FILES_MIN, left // 3))
    connections = min(settings.connections_max, (left - files) // _DESCRIPTORS_PER_CONNECTION)
    if connections < 1:
        raise StartError(
            f"The system allows only {allowed} open files; raise the limit (ulimit -n, LimitNOFILE=) to at least"
            f" {_SPARE_FILES + _LOG_FILES_MIN + _DESCRIPTORS_PER_CONNECTION}, better to {wanted}."
        )
    logger.warning(
        "the system allows %d open files but the settings need %d: connections_max reduced from %d to %d and"
        " open_files_max from %d to %d; raise the limit (ulimit -n, LimitNOFILE=) to avoid this",
        allowed,
        wanted,
        settings.connections_max,
        connections,
        settings.open_files_max,
        files,
    )
    return replace(settings, connections_max=connections, open_files_max=files)


async def _serve_with_metadata(settings: Settings, on_ready: Callable[[ReadyInfo], None]) -> int:
    """The member of the metadata store that this broker runs, if any, starts first and stops last."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    if settings.cluster is None:
        return await _serve(settings, on_ready, stopping)
    from penstock.apps.etcd_member import await_majority, running_member

    async with running_member(settings) as target:
        if not await done_before(stopping, await_majority(target)):
            return 0
        return await _serve(replace(settings, metadata=target.url), on_ready, stopping)


async def _serve(settings: Settings, on_ready: Callable[[ReadyInfo], None], stopping: asyncio.Event) -> int:
    loop = asyncio.get_running_loop()
    settings = _with_rack(settings)
    workers = ThreadWorkers(loop, settings.flush_threads)
    files: Files = (
        MemoryFiles()
        if settings.storage is Storage.MEMORY
        else DiskFiles(Path(settings.data_dir), settings.open_files_max)
    )
    gc.freeze()  # imported modules stay alive: `settle_memory` need not search them for garbage
    gc.disable()  # objects created by recovery stay alive; `settle_memory` enables it again
    runtime = Runtime(SystemClock(), SystemRng(), files, workers, boot_id=_boot_id())
    try:
        broker = await start_broker(settings, runtime, _shared_log(settings, runtime))
    except BrokerError as error:
        raise StartError(f"Cannot start from {settings.data_dir}: {error}") from error
    doorways, is_lost = Doorways(broker), False
    try:
        bound = await doorways.open()
        advertised = advertised_address(settings, bound[KAFKA].port)
        # A broker may wait long for the session of its predecessor to end.
        if await done_before(stopping, _join(broker, bound, advertised)):
            await doorways.serve(advertised)
            settle_memory()
            on_ready(_ready_info(settings, bound, advertised))
            is_lost = await _serve_on(broker, stopping)
        logger.info("stopping")
        await broker.announce_stop()
        await doorways.close()
    finally:
        is_clean = await broker.stop()
        workers.close()
    logger.info("stopped cleanly" if is_clean else "stopped; the next start must recover the logs")
    return 1 if is_lost else 0


async def _serve_on(broker: Broker, stopping: asyncio.Event) -> bool:
    """Returns when the broker has to stop; True because it cannot follow its cluster any more."""
    if broker.membership is None:
        await stopping.wait()
        return False
    is_lost = await done_before(stopping, broker.membership.lost())
    if is_lost:
        logger.critical("this broker cannot follow the metadata of its cluster any more; it ends")
    return is_lost


def _with_rack(settings: Settings) -> Settings:
    """Brokers of one machine fail together, unless the settings say otherwise."""
    if settings.metadata is None or settings.rack:
        return settings
    from penstock.node.cluster.rack import machine_rack

    return replace(settings, rack=machine_rack())


def _shared_log(settings: Settings, runtime: Runtime) -> OpenSharedLog | None:
    if settings.metadata is None:
        return None
    from penstock.node.cluster.shared_log import shared_log_opener  # a single broker needs none of it

    return shared_log_opener(settings, runtime, settings.node_id)


async def _join(broker: Broker, bound: dict[str, Address], advertised: Address) -> None:
    """Take part in the cluster. Every door is advertised at the host of the Kafka door."""
    listeners = {name: Address(advertised.host, address.port) for name, address in bound.items()}
    listeners[KAFKA] = advertised
    if broker.settings.gossip:
        listeners[GOSSIP_LISTENER] = advertised  # the same port number, of UDP
    try:
        await broker.join(listeners)
    except BrokerError as error:
        raise StartError(f"Cannot join the cluster: {error}") from error


def _boot_id() -> str:
    """Identifies this run of the operating system; empty where it has no such id."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _ready_info(settings: Settings, bound: dict[str, Address], advertised: Address) -> ReadyInfo:
    kafka = bound[KAFKA]
    return ReadyInfo(
        host=kafka.host,
        port=kafka.port,
        advertised=advertised,
        data_dir=str(Path(settings.data_dir).absolute()),
        storage=settings.storage,
        durability=settings.durability,
        pid=os.getpid(),
        doors={name: address.port for name, address in bound.items() if name != KAFKA},
    )
