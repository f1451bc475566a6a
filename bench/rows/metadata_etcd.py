"""Changes of the catalog per second through three members of etcd on this machine, against flushes of the same disk.

The members run with the command line that `--cluster` gives them. They share the disk and the CPUs, so that a change
costs three flushes here and one round trip between machines elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.catalog_broker import ChangeLoad, OpenableLog, measure_changes
from bench.figures import Figure, at_least, figure
from bench.session import Session
from penstock.apps.bench.harness.process import ServerProcess, free_port, is_listening
from penstock.apps.etcd_member import DIRECTORY, MemberPlan, etcd_version, find_etcd, member_command
from penstock.apps.process import loop_factory
from penstock.core.model import Address
from penstock.node.cluster.members import ClusterMember
from penstock.node.cluster.metadata_etcd import MetadataEtcd
from penstock.node.etcd.client import EtcdClient
from penstock.node.etcd.target import EtcdTarget
from penstock.node.runtime.runtime import Runtime

MEMBERS = 3
BROKERS = 3
IN_FLIGHT = 30
CHANGES_PER_S_MIN = 200.0


def measure(session: Session) -> list[Figure]:
    with (
        session.home() as home,
        _etcd(session, home) as target,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        return runner.run(_measure(session, home, target))


@contextmanager
def _etcd(session: Session, home: Path) -> Iterator[EtcdTarget]:
    """Three members on both CPUs; killed at the end of the block."""
    program = find_etcd()
    version = etcd_version(program)
    members = tuple(
        ClusterMember(number, Address("127.0.0.1", _two_ports())) for number in range(1, MEMBERS + 1)
    )
    servers: list[ServerProcess] = []
    try:
        for member in members:
            plan = MemberPlan(members, member.node_id, home / str(member.node_id))
            (plan.data_dir / DIRECTORY).mkdir(parents=True)
            command = member_command(program, version, plan)
            servers.append(ServerProcess(command, plan.data_dir, session.cpus.server, session.cpus.loader))
        for server, member in zip(servers, members, strict=True):
            server.await_ready(lambda member=member: is_listening(member.address.port))  # type: ignore[misc]
        yield EtcdTarget(tuple(member.address for member in members), prefix="bench/")
    finally:
        for server in servers:
            server.kill()


def _two_ports() -> int:
    """A free port whose successor is free: a member takes both."""
    while is_listening((port := free_port()) + 1):
        continue
    return port


async def _measure(session: Session, home: Path, target: EtcdTarget) -> list[Figure]:
    def logs(runtime: Runtime) -> list[OpenableLog]:
        return [MetadataEtcd(EtcdClient(target), runtime) for _ in range(BROKERS)]

    load = ChangeLoad("metadata changes through etcd", IN_FLIGHT, session.pick(100, 30), session.pick(20, 5))
    rates = await measure_changes(session, home, logs, load)
    flush = figure("plain", "1/s", rates.flushes, "").value
    reference = f"append + fdatasync of one event: {flush:,.0f}/s"
    name = f"metadata changes through {MEMBERS} members of etcd"
    return [
        figure(
            f"{name}, {IN_FLIGHT} in flight",
            "changes/s",
            rates.shared,
            reference,
            at_least(CHANGES_PER_S_MIN),
        ),
        figure(
            f"{name}, {BROKERS} brokers × {IN_FLIGHT // BROKERS}",
            "changes/s",
            rates.contended,
            reference,
            at_least(CHANGES_PER_S_MIN),
        ),
        figure(
            f"{name}, one in flight",
            "changes/s",
            rates.singles,
            f"{reference}; a change waits for a majority",
        ),
    ]
