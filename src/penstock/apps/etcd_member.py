"""The etcd member that a broker runs for the user: its command line, and why it cannot run.

`--cluster 1@a,2@b,3@c` is all that the user says. Everything else that etcd needs is decided here: where it listens,
how it compacts, how fast it elects. Its data is below the broker's.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.apps.ready import StartError
from penstock.apps.supervised_process import SupervisedProcess
from penstock.core.errors import MetadataUnavailable, TimedOut
from penstock.core.model import Address
from penstock.node.cluster.members import ClusterMember, parse_members
from penstock.node.connections.addresses import is_loopback
from penstock.node.etcd.failover import CallLimits
from penstock.node.etcd.target import EtcdTarget, TlsFiles
from penstock.node.settings import Settings
from penstock.wire.etcd.messages import get

logger = logging.getLogger("penstock.etcd")

DIRECTORY = "etcd"
DATA = "data"
LISTED_S_MAX = 1.0
"""How long a member without data looks for an etcd that it was added to."""
HEARTBEAT_MS = 200
ELECTION_MS = 2_000
"""Brokers, Spark and etcd share few cores: a shorter timeout elects new leaders because of a busy CPU."""
QUOTA_BYTES = 2 << 30
COMPACTION_RETENTION = "5m"
"""How long etcd keeps old revisions: followers that were away for longer read the log again."""
SNAPSHOT_COUNT = 10_000
"""Raft entries between two snapshots of etcd; the default of old versions costs 100 MB of memory."""

_PROBED_KEY = b"penstock"
_OLDEST = (3, 4, 0)
_FEATURE_GATES = (3, 6, 0)
_LOSES_DATA = ((3, 5, 0), (3, 5, 2))
"""These releases can lose data when the process is killed (etcd's own announcement of 2022)."""

_INSTALL = (
    "Install it (Debian, Ubuntu: `apt-get install etcd-server`; macOS: `brew install etcd`; others: https://etcd.io),"
    " or use an etcd that is already running with --metadata etcd://host:2379"
)
_REMEDIES = {
    "already been bootstrapped": "Its data directory is empty, but the cluster knows this member: restore the"
    " directory, or replace the member: `etcdctl member remove`, then `member add`, then restart this broker. ",
    "address already in use": "Another process uses its port: stop that one, or list another port in --cluster. ",
    "no space left on device": "The disk is full: free space. ",
    "cluster ID mismatch": "Another cluster uses these addresses: list the same members in --cluster on all machines. ",
    "couldn't find local name": "This broker's node id is not in --cluster. ",
}


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """What one broker needs to know to run its member."""

    members: tuple[ClusterMember, ...]
    node_id: int
    data_dir: Path
    """The broker's."""
    tls: TlsFiles | None = None

    @property
    def own(self) -> ClusterMember:
        """Raises StartError if this broker is not listed."""
        for member in self.members:
            if member.node_id == self.node_id:
                return member
        listed = ", ".join(str(member.node_id) for member in self.members)
        raise StartError(
            f"This broker has node id {self.node_id}, but --cluster lists {listed}; set --node-id to one of them."
        )

    @property
    def target(self) -> EtcdTarget:
        """How brokers reach the members: their own first."""
        own = self.own
        others = [member.address for member in self.members if member != own]
        return EtcdTarget((own.address, *others), tls=self.tls)


@asynccontextmanager
async def running_member(settings: Settings) -> AsyncIterator[EtcdTarget]:
    """Run the member that the setting `cluster` lists for this broker; yields how to reach it and the others.

    The member stops after the broker, which needs it to leave the cluster. Raises StartError.
    """
    assert settings.cluster is not None
    plan = MemberPlan(parse_members(settings.cluster), settings.node_id, Path(settings.data_dir))
    member = etcd_member(plan, replaces=await _replaces(plan))
    try:
        await member.start()
    except OSError as error:
        raise StartError(f"Cannot start etcd: {error.strerror}. {_INSTALL}.") from error
    try:
        yield plan.target
    finally:
        await member.stop()


async def _replaces(plan: MemberPlan) -> bool:
    """Whether this member has no data yet and was added to an etcd that runs: the operator replaces a lost one."""
    from penstock.node.etcd.client import EtcdClient

    others = plan.target.endpoints[1:]
    if not others or (plan.data_dir / DIRECTORY / DATA).exists():
        return False
    client = EtcdClient(EtcdTarget(others, tls=plan.tls))
    try:
        return _peer_url(plan, plan.own) in await client.unstarted_urls(
            CallLimits(LISTED_S_MAX, LISTED_S_MAX)
        )
    except (MetadataUnavailable, TimedOut):
        return False  # no other member runs: all of them are new
    finally:
        client.close()


async def await_majority(target: EtcdTarget) -> None:
    """Wait until etcd answers. The first machines of a cluster wait here for the others to be started."""
    from penstock.node.etcd.client import EtcdClient

    client = EtcdClient(target)
    try:
        while True:
            try:
                await client.read(get(_PROBED_KEY))
                return
            except (MetadataUnavailable, TimedOut) as error:
                logger.warning(
                    "waiting for a majority of the etcd members to run; start the brokers that --cluster lists: %s",
                    error,
                    extra={"members": str(target)},
                )
    finally:
        client.close()


def etcd_member(plan: MemberPlan, *, replaces: bool = False) -> SupervisedProcess:
    """The member as a process that is yet to be started; `replaces` one that was lost. Raises StartError if etcd is
    missing or not usable."""
    program = find_etcd()
    home = plan.data_dir / DIRECTORY
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(f"Cannot create etcd's data directory {home}: {error.strerror}.") from error
    return SupervisedProcess(
        "etcd",
        member_command(program, etcd_version(program), plan, replaces=replaces),
        home / "etcd.log",
        environment=member_environment(os.environ),
        explain=explain,
    )


def find_etcd() -> str:
    """The path of the program. Raises StartError."""
    program = shutil.which("etcd")
    if program is None:
        raise StartError(f"--cluster needs the program `etcd`, which is not on PATH. {_INSTALL}.")
    return program


def etcd_version(program: str) -> tuple[int, int, int]:
    """Raises StartError if this release must not be used."""
    try:
        output = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=30, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise StartError(f"Cannot run {program}: {error}. {_INSTALL}.") from error
    match = re.search(r"etcd Version: (\d+)\.(\d+)\.(\d+)", output)
    if match is None:
        raise StartError(f"{program} --version does not tell etcd's version. {_INSTALL}.")
    major, minor, patch = map(int, match.groups())
    version = (major, minor, patch)
    if version < _OLDEST:
        raise StartError(
            f"{program} is version {major}.{minor}.{patch}; Penstock needs 3.4 or later. {_INSTALL}."
        )
    if _LOSES_DATA[0] <= version <= _LOSES_DATA[1]:
        raise StartError(
            f"{program} is version {major}.{minor}.{patch}, which can lose data; install 3.5.3 or later."
        )
    return version


def member_command(
    program: str,
    version: tuple[int, int, int],
    plan: MemberPlan,
    resolve: Callable[[str], str] = socket.gethostbyname,
    *,
    replaces: bool = False,
) -> list[str]:
    """The command line of this broker's member. Raises StartError if its host name has no address."""
    own, scheme = plan.own, "https" if plan.tls else "http"
    bound = _bound_host(plan, resolve)
    peers = ",".join(f"{_name(one)}={_peer_url(plan, one)}" for one in plan.members)
    flags = {
        "name": _name(own),
        "data-dir": str(plan.data_dir / DIRECTORY / DATA),
        "listen-client-urls": f"{scheme}://{Address(bound, own.address.port)}",
        "advertise-client-urls": f"{scheme}://{own.address}",
        "listen-peer-urls": f"{scheme}://{Address(bound, own.peer_address.port)}",
        "initial-advertise-peer-urls": _peer_url(plan, own),
        "initial-cluster": peers,
        # Members of different clusters must not find each other by mistake.
        "initial-cluster-token": f"penstock-{hashlib.sha256(peers.encode()).hexdigest()[:16]}",
        "initial-cluster-state": "existing" if replaces else "new",
        "heartbeat-interval": str(HEARTBEAT_MS),
        "election-timeout": str(ELECTION_MS),
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": COMPACTION_RETENTION,
        "quota-backend-bytes": str(QUOTA_BYTES),
        "snapshot-count": str(SNAPSHOT_COUNT),
        "logger": "zap",
        "log-level": "warn",
        "log-outputs": "stderr",
        **_corruption_check(version),
        **_tls_flags(plan.tls),
    }
    return [program, *(f"--{name}={value}" for name, value in flags.items())]


def member_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """etcd refuses to start if a variable repeats a flag, so its variables are not passed on."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("ETCD_") or name == "ETCD_UNSUPPORTED_ARCH"
    }


def explain(output: str) -> str:
    """The remedy for a known failure, with a space behind it; empty for others."""
    return next((remedy for words, remedy in _REMEDIES.items() if words in output), "")


def _name(member: ClusterMember) -> str:
    return f"broker-{member.node_id}"


def _peer_url(plan: MemberPlan, member: ClusterMember) -> str:
    return f"{'https' if plan.tls else 'http'}://{member.peer_address}"


def _bound_host(plan: MemberPlan, resolve: Callable[[str], str]) -> str:
    """etcd listens on addresses, not on names. A name that only resolves to loopback here is bound to all addresses."""
    host = plan.own.address.host
    try:
        address = resolve(host)
    except OSError as error:
        raise StartError(
            f"Cannot resolve the host {host!r} of this broker in --cluster: {error.strerror}."
        ) from error
    if is_loopback(address) and not all(is_loopback(member.address.host) for member in plan.members):
        return "0.0.0.0"
    return address


def _corruption_check(version: Sequence[int]) -> dict[str, str]:
    """Before it serves, a member compares its data with the others'."""
    if tuple(version) >= _FEATURE_GATES:
        return {"feature-gates": "InitialCorruptCheck=true"}
    return {"experimental-initial-corrupt-check": "true"}


def _tls_flags(tls: TlsFiles | None) -> dict[str, str]:
    if tls is None:
        return {}
    flags = {"cert-file": tls.cert, "key-file": tls.key, "trusted-ca-file": tls.ca}
    return {
        **flags,
        **{f"peer-{name}": value for name, value in flags.items()},
        "client-cert-auth": "true",
        "peer-client-cert-auth": "true",
    }
