"""Changes of the catalog per second through the coordinator of a local cluster, against flushes of the same disk."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from bench.catalog_broker import ChangeLoad, OpenableLog, measure_changes
from bench.figures import Figure, at_least, figure
from bench.session import Session
from penstock.apps.bench.harness.process import ServerProcess
from penstock.apps.process import loop_factory
from penstock.core.model import Address
from penstock.node.cluster.cluster_secret import read_secret
from penstock.node.cluster.metadata_link import CoordinatorAccess
from penstock.node.cluster.metadata_remote import RemoteMetadataLog
from penstock.node.runtime.runtime import Runtime

IN_FLIGHT = 50
BROKERS = 5
CHANGES_PER_S_MIN = 1_000.0
GAIN_MIN = 5.0


def measure(session: Session) -> list[Figure]:
    with session.home() as home:
        command = [sys.executable, "-m", "penstock.apps.coordinator", "--data-dir", str(home / "data")]
        server = ServerProcess(command, home, session.cpus.server)
        try:
            server.await_ready(lambda: server.log_tail().endswith("}\n"))
            ready = json.loads(server.log_tail().splitlines()[-1])
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                return runner.run(_measure(session, home, ready))
        finally:
            server.kill()


async def _measure(session: Session, home: Path, ready: dict[str, str]) -> list[Figure]:
    address, secret = Address(ready["host"], int(ready["port"])), read_secret(Path(ready["secret_file"]))

    def logs(runtime: Runtime) -> list[OpenableLog]:
        numbers = range(1, BROKERS + 1)
        return [RemoteMetadataLog(CoordinatorAccess(address, secret, one), runtime) for one in numbers]

    what = "metadata changes through the coordinator"
    load = ChangeLoad(what, IN_FLIGHT, session.pick(300, 100), session.pick(30, 10))
    rates = await measure_changes(session, home, logs, load)
    flush, single = figure("plain", "1/s", rates.flushes, ""), figure("single", "1/s", rates.singles, "")
    gains = [many / one for many, one in zip(rates.shared, rates.singles, strict=True)]
    reference = f"append + fdatasync of one event: {flush.value:,.0f}/s"
    beside = f"one in flight: {single.value:,.0f} changes/s"
    name = f"metadata changes, {IN_FLIGHT} in flight"
    return [
        figure(f"{name}, against one", "×", gains, beside, at_least(GAIN_MIN)),
        figure(name, "changes/s", rates.shared, reference, at_least(CHANGES_PER_S_MIN)),
        figure(
            f"metadata changes, {BROKERS} brokers × {IN_FLIGHT // BROKERS}",
            "changes/s",
            rates.contended,
            beside,
        ),
    ]
