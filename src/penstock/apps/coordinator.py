"""`python -m penstock.apps.coordinator`: runs the coordinator of a local cluster in the foreground.

Prints one line of JSON once brokers can connect (`host`, `port`, `pid`, `cluster_id`, `secret_file`), also into the
ready file if it is given one, and stops cleanly on SIGTERM and SIGINT. Exits with 1 if it cannot start or its disk
fails; whoever supervises it starts it again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import click

from penstock.apps.process import lock_directory, loop_factory, settle_memory
from penstock.apps.ready import StartError, write_json
from penstock.core.errors import BrokerError
from penstock.node.cluster.cluster_secret import SECRET_FILE, make_secret
from penstock.node.cluster.metadata_log import SESSION_TTL_S
from penstock.node.connections.addresses import Address, is_loopback
from penstock.node.log_choices import LogFormat, LogLevel
from penstock.node.logs import configure_logging
from penstock.node.metadata_coordinator import COORDINATOR_FILES, start_coordinator
from penstock.node.runtime.clock import SystemClock, SystemRng
from penstock.node.runtime.disk import DiskFiles
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.workers import ThreadWorkers
from penstock.node.settings import Settings

logger = logging.getLogger("penstock.coordinator")

SETTINGS = Settings(
    connections_max=1_000, connections_per_address_max=1_000, idle_ms_max=60_000, frame_ms_max=10_000
)
"""Limits of the coordinator's port. Brokers renew their sessions every few seconds, so a silent one is gone."""
OPEN_FILES_MAX = 64


@click.command()
@click.option(
    "--data-dir", type=click.Path(path_type=Path), required=True, help="Directory of the metadata log."
)
@click.option("--host", default="127.0.0.1", help="Loopback address to listen on.")
@click.option("--port", default=0, help="Port to listen on; 0 picks a free port.")
@click.option("--session-ttl-ms", default=SESSION_TTL_S * 1_000, help="Time limit of a session.")
@click.option(
    "--log-level", type=click.Choice([one.value for one in LogLevel]), default=SETTINGS.log_level.value
)
@click.option(
    "--log-format", type=click.Choice([one.value for one in LogFormat]), default=SETTINGS.log_format.value
)
@click.option(
    "--linger-ms", default=0, help="Time for brokers that stop as well to leave before it stops serving them."
)
@click.option(
    "--ready-file", type=click.Path(path_type=Path), help="File that the JSON line is written to as well."
)
def main(
    data_dir: Path,
    host: str,
    port: int,
    session_ttl_ms: int,
    log_level: str,
    log_format: str,
    linger_ms: int,
    ready_file: Path | None,
) -> None:
    """Serve the metadata log of a local cluster to its brokers."""
    configure_logging(LogLevel(log_level), LogFormat(log_format), sys.stderr)

    def on_ready(ready: dict[str, object]) -> None:
        print(json.dumps(ready), flush=True)
        if ready_file is not None:
            write_json(ready_file, ready)

    try:
        code = serve_coordinator(
            data_dir, Address(host, port), session_ttl_ms / 1_000, on_ready, linger_s=linger_ms / 1_000
        )
    except StartError as error:
        raise click.ClickException(str(error)) from None
    raise SystemExit(code)


def serve_coordinator(
    data_dir: Path,
    address: Address,
    ttl_s: float,
    on_ready: Callable[[dict[str, object]], None],
    *,
    linger_s: float,
) -> int:
    """Run until SIGTERM or SIGINT, and then for `linger_s` while brokers are connected; returns the exit code. Raises
    StartError if it cannot start."""
    if not is_loopback(address.host):
        raise StartError(
            f"The coordinator serves brokers of this machine only; {address.host} is not a loopback address."
        )
    lock = lock_directory(data_dir, COORDINATOR_FILES, "coordinator")
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(_serve(data_dir, address, ttl_s, on_ready, linger_s))
    finally:
        lock.release()


async def _serve(
    data_dir: Path,
    address: Address,
    ttl_s: float,
    on_ready: Callable[[dict[str, object]], None],
    linger_s: float,
) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    workers = ThreadWorkers(loop, 1)
    runtime = Runtime(SystemClock(), SystemRng(), DiskFiles(data_dir, OPEN_FILES_MAX), workers)
    try:
        secret = make_secret(data_dir, runtime.rng)
        coordinator = await start_coordinator(runtime, SETTINGS, secret, ttl_s)
    except (BrokerError, OSError) as error:
        raise StartError(f"Cannot start the coordinator from {data_dir}: {error}") from error
    try:
        bound = await coordinator.listen(address)
    except OSError as error:
        await coordinator.stop()
        raise StartError(f"Cannot listen on {address.host}:{address.port}: {error.strerror}.") from error
    settle_memory()
    on_ready(
        {
            "host": bound.host,
            "port": bound.port,
            "pid": os.getpid(),
            "cluster_id": coordinator.cluster_id,
            "secret_file": str((data_dir / SECRET_FILE).absolute()),
        }
    )
    coordinator.failed.add_done_callback(lambda _: stopping.set())
    await stopping.wait()
    has_failed = coordinator.failed.done()
    if not has_failed:
        await coordinator.brokers_gone(linger_s)
    is_clean = await coordinator.stop()
    workers.close()
    logger.info("stopped cleanly" if is_clean else "stopped; the next start must recover the log")
    return 1 if has_failed else 0


if __name__ == "__main__":
    main()
