"""A real etcd of three members on loopback, and what can happen to it.

Started with the command line of a broker's own member, but with short time-outs; processes end by their pid.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from conditions import until
from penstock.apps.bench.harness.process import free_port, is_listening
from penstock.apps.etcd_member import DIRECTORY, MemberPlan, etcd_version, find_etcd, member_command
from penstock.core.model import Address
from penstock.node.cluster.members import ClusterMember
from penstock.node.etcd.target import EtcdTarget, TlsFiles

HOST = "127.0.0.1"
FAST = {"heartbeat-interval": "50", "election-timeout": "500"}
"""Elections within a second. A lease lives three elections' time at least."""


def free_addresses(count: int) -> list[Address]:
    """Addresses of members: nobody uses their ports, nor the next ones."""
    ports: list[int] = []
    while len(ports) < count:
        port = free_port()
        if not is_listening(port + 1) and all(abs(port - other) > 1 for other in ports):
            ports.append(port)
    return [Address(HOST, port) for port in ports]


class EtcdCluster:
    """Three members; `start` them first."""

    def __init__(
        self,
        home: Path,
        count: int,
        tls: TlsFiles | None,
        addresses: Sequence[Address] = (),
        wrappers: Sequence[tuple[str, ...]] = (),
    ) -> None:
        self._home = home
        self._tls = tls
        self._program = find_etcd()
        self._version = etcd_version(self._program)
        self.members = tuple(
            ClusterMember(number, address)
            for number, address in enumerate(addresses or free_addresses(count), 1)
        )
        self._wrappers = wrappers or [()] * count
        """Commands that run the members, in a namespace of the network for example."""
        self.login = ""
        """`user:password` of the administrator, once there is one."""
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def endpoints(self) -> tuple[Address, ...]:
        return tuple(member.address for member in self.members)

    def target(self, prefix: str) -> EtcdTarget:
        return EtcdTarget(self.endpoints, prefix=prefix)

    def start(self, *numbers: int) -> None:
        """Start these members, or all, and wait until each answers."""
        chosen = numbers or tuple(member.node_id for member in self.members)
        for number in chosen:
            self._launch(number)
        for number in chosen:
            self.await_healthy(number)

    def _launch(self, number: int) -> None:
        assert number not in self._processes
        plan = MemberPlan(self.members, number, self._home / str(number), self._tls)
        (plan.data_dir / DIRECTORY).mkdir(parents=True, exist_ok=True)
        command = [*self._wrappers[number - 1], *member_command(self._program, self._version, plan)]
        command += [f"--{name}={value}" for name, value in FAST.items()]
        with (self._home / f"{number}.log").open("ab") as log:
            self._processes[number] = subprocess.Popen(command, stdout=log, stderr=log)

    def await_healthy(self, number: int) -> None:
        until(
            lambda: self.ctl("endpoint", "health", number=number, check=False, timeout_s=1).returncode == 0,
            f"etcd member {number} did not become healthy",
        )

    def ctl(
        self, *words: str, number: int = 1, check: bool = True, timeout_s: int = 10
    ) -> subprocess.CompletedProcess[str]:
        """Run etcdctl against one member."""
        address = self.members[number - 1].address
        scheme = "https" if self._tls else "http"
        command = ["etcdctl", f"--endpoints={scheme}://{address}", f"--command-timeout={timeout_s}s", *words]
        environment = {**os.environ, "ETCDCTL_API": "3"}
        if self._tls:
            command += [f"--cacert={self._tls.ca}", f"--cert={self._tls.cert}", f"--key={self._tls.key}"]
        if self.login:
            command.append(f"--user={self.login}")
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=check)

    @property
    def leader(self) -> int:
        """The member that leads, as the members say."""
        for member in self.members:
            if member.node_id in self._processes:
                fields = self.ctl("endpoint", "status", number=member.node_id).stdout.split(", ")
                if fields[4] == "true":
                    return member.node_id
        raise AssertionError("no member leads")

    def pid(self, number: int) -> int:
        return self._processes[number].pid

    def kill(self, *numbers: int) -> None:
        """kill -9 of these members, or of all at once."""
        chosen = numbers or tuple(self._processes)
        for number in chosen:
            self._processes[number].send_signal(signal.SIGKILL)
        for number in chosen:
            self._processes.pop(number).wait()

    def pause(self, number: int) -> None:
        self._processes[number].send_signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        self._processes[number].send_signal(signal.SIGCONT)

    def back_up(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self.ctl("snapshot", "save", str(path))

    def restore(self, path: Path) -> None:
        """Put the copy into the place of all members, as an administrator would."""
        self.kill()
        peers = ",".join(f"broker-{one.node_id}=http://{one.peer_address}" for one in self.members)
        for member in self.members:
            data = self._home / str(member.node_id) / DIRECTORY / "data"
            shutil.rmtree(data)
            self.ctl(
                *("snapshot", "restore", str(path), "--data-dir", str(data)),
                *("--name", f"broker-{member.node_id}", "--initial-cluster", peers),
                *("--initial-advertise-peer-urls", f"http://{member.peer_address}"),
                *("--initial-cluster-token", "restored"),
            )
        self.start()

    def close(self) -> None:
        for number in list(self._processes):
            self.resume(number)
        if self._processes:
            self.kill()


@contextmanager
def running_etcd(count: int = 3, tls: TlsFiles | None = None) -> Iterator[EtcdCluster]:
    with tempfile.TemporaryDirectory(prefix="etcd-") as home:
        cluster = EtcdCluster(Path(home), count, tls)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.close()


class Wire:
    """A connection to a member that can be cut, or lose what comes back."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.loses_answers = False
        self.is_cut = False

    async def open(self) -> Address:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        return Address(HOST, self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        """Nothing goes through any more; nobody is told."""
        self.is_cut = True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        remote_reader, remote_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, remote_writer}
        await asyncio.gather(
            self._carry(reader, remote_writer, is_answer=False),
            self._carry(remote_reader, writer, is_answer=True),
        )

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        try:
            while content := await reader.read(65_536):
                if not self.is_cut and not (is_answer and self.loses_answers):
                    writer.write(content)
                    await writer.drain()
        except ConnectionError:
            return
        finally:
            writer.close()
