"""The metadata store of a cluster under test, as processes that can be killed and paused one by one.

A coordinator is one process; an etcd has three members and works while two of them do.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from checker.network import HostNetwork
from etcd_cluster import EtcdCluster
from penstock.core.model import Address
from penstock.testing import CoordinatorServer

COORDINATOR, ETCD = "coordinator", "etcd"
STORES = (COORDINATOR, ETCD)
HOSTS = {COORDINATOR: ("store",), ETCD: ("etcd-1", "etcd-2", "etcd-3")}
"""The hosts of each kind of store, by which its processes are named too."""
_CLIENT_PORT = 2379
READY_S_MAX = 120.0
"""Starts take long on a machine that is busy with the load."""


class Store(Protocol):
    """`hosts` names its processes."""

    hosts: tuple[str, ...]

    @property
    def url(self) -> str:
        """The setting `metadata` of the brokers."""

    def start(self, hosts: Sequence[str]) -> None:
        """Start these processes, and return when they serve."""

    def kill(self, hosts: Sequence[str]) -> None: ...

    def pause(self, host: str) -> None: ...

    def resume(self, host: str) -> None: ...

    def close(self) -> None:
        """Raises BrokerDied if a process has left by itself."""


class CoordinatorStore:
    def __init__(self, home: Path, session_ms: int, network: HostNetwork | None) -> None:
        self.hosts = HOSTS[COORDINATOR]
        (host,) = self.hosts
        address = "127.0.0.1" if network is None else network.loopback(host)
        self._server = CoordinatorServer(home / host, session_ms, address)
        self._server.ready_s_max = READY_S_MAX
        if network is not None:
            self._server.wrapper = network.wrapper(host)

    @property
    def url(self) -> str:
        return self._server.url

    def start(self, hosts: Sequence[str]) -> None:
        if hosts:
            self._server.start()

    def kill(self, hosts: Sequence[str]) -> None:
        if hosts:
            self._server.kill()

    def pause(self, host: str) -> None:
        os.kill(self._server.pid, signal.SIGSTOP)

    def resume(self, host: str) -> None:
        os.kill(self._server.pid, signal.SIGCONT)

    def close(self) -> None:
        self._server.close()


class EtcdStore:
    def __init__(self, home: Path, network: HostNetwork | None) -> None:
        self.hosts = HOSTS[ETCD]
        (home / ETCD).mkdir(parents=True)
        if network is None:
            self._cluster = EtcdCluster(home / ETCD, len(self.hosts), None)
        else:
            addresses = [Address(network.address(host), _CLIENT_PORT) for host in self.hosts]
            wrappers = [network.wrapper(host) for host in self.hosts]
            self._cluster = EtcdCluster(home / ETCD, len(self.hosts), None, addresses, wrappers)

    @property
    def url(self) -> str:
        return self._cluster.target("chaos").url

    def start(self, hosts: Sequence[str]) -> None:
        if hosts:
            self._cluster.start(*map(self._number, hosts))

    def kill(self, hosts: Sequence[str]) -> None:
        if hosts:
            self._cluster.kill(*map(self._number, hosts))

    def pause(self, host: str) -> None:
        self._cluster.pause(self._number(host))

    def resume(self, host: str) -> None:
        self._cluster.resume(self._number(host))

    def close(self) -> None:
        self._cluster.close()

    def _number(self, host: str) -> int:
        return self.hosts.index(host) + 1


class NoStore:
    """Of brokers that keep their metadata themselves."""

    hosts: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return ""

    def start(self, hosts: Sequence[str]) -> None: ...

    def kill(self, hosts: Sequence[str]) -> None: ...

    def pause(self, host: str) -> None: ...

    def resume(self, host: str) -> None: ...

    def close(self) -> None: ...
