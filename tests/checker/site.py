"""Everything of a cluster that faults can hit: broker processes, the metadata store, the network, disks, clocks.

Nothing is restarted by itself. What the machine or the brokers under test do not offer is named in `lacks` with the
reason, and the faults that need it are left out.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol, Self

from checker.network import HostNetwork, network_problem
from checker.sight import Sight
from checker.skewed_broker import write_skew
from checker.store import COORDINATOR, HOSTS, READY_S_MAX, CoordinatorStore, EtcdStore, Store
from e2e.disks import LoopDisk
from penstock.testing import Broker, BrokerDied

SESSION_MS = 3_000
"""Shorter than usual, so that most pauses and cuts are longer."""
LAG_MS = 4_000
"""After this time without everything a replica leaves the ISR: shorter than most cuts."""
STOP_S_MAX = 60.0
_SKEWED = Path(__file__).with_name("skewed_broker.py")
_DISK_BYTES = 64 << 20
_BALLAST = "ballast"
_NO_DOORS = {"text_port": "off", "json_port": "off", "http_port": "off"}
NETWORK, DISK, DISK_ERRORS, TRACE, MEMBERS = "network", "disk", "disk errors", "trace", "members"
STORE, CLOCK, QUEUE_DOOR = "store", "clock", "queue door"
CLIENT_HOSTS = ("client-0", "client-1", "client-2")
"""Workers run there, so that some of them can be cut off from some brokers."""


class SiteBroker(Protocol):
    """A broker process on a host of its own. Speaks the verbs of penstock.testing.Broker."""

    node_id: int
    host_name: str
    home: Path
    data_dir: Path

    @property
    def pid(self) -> int: ...

    @property
    def is_running(self) -> bool: ...

    @property
    def bootstrap(self) -> str: ...

    def start(self) -> None: ...

    def launch(self) -> None: ...

    def await_ready(self) -> None: ...

    def kill(self) -> None: ...

    def stop(self, wait_s_max: float = ...) -> int: ...

    def close(self) -> None: ...

    def output(self) -> str: ...

    def skew(self, skew_ms: int) -> None:
        """Move the clock, running or not."""


def pause(broker: SiteBroker) -> None:
    os.kill(broker.pid, signal.SIGSTOP)


def resume(broker: SiteBroker) -> None:
    os.kill(broker.pid, signal.SIGCONT)


class PenstockBroker(Broker):
    ready_s_max = READY_S_MAX

    def __init__(
        self,
        node_id: int,
        home: Path,
        metadata: str,
        network: HostNetwork | None,
        rf: int,
    ) -> None:
        self.node_id = node_id
        self.host_name = f"broker-{node_id}"
        own: dict[str, str | int | bool | Path] = {
            **_NO_DOORS,
            "node_id": node_id,
            "metadata": metadata,
            "session_ms": SESSION_MS,
            "replica_lag_ms": LAG_MS,
            # All brokers are on one machine, so by themselves they would not replicate internal topics.
            "default_replication_factor": rf,
        }
        if network is not None:
            own["host"] = network.address(self.host_name)
        super().__init__(home / self.host_name, own)
        if network is not None:
            self.wrapper = network.wrapper(self.host_name)
        self._skew_file = self.home / "skew"
        self.command = (sys.executable, "-P", str(_SKEWED), str(self._skew_file))

    def launch(self) -> None:
        if not self._skew_file.exists():
            self.home.mkdir(parents=True, exist_ok=True)
            write_skew(self._skew_file, 0)
        super().launch()

    def skew(self, skew_ms: int) -> None:
        write_skew(self._skew_file, skew_ms)


class Site(ABC):
    """`with PenstockSite(home, 3, …) as site`: a cluster whose brokers are all ready."""

    failures: tuple[str, ...] = ()
    """Words in the log of a broker that no fault excuses."""
    survives_disks = True
    """Whether a broker process goes on when its disk fails."""

    def __init__(
        self, home: Path, nodes: int, store_hosts: Sequence[str], wanted: Sequence[str] = ()
    ) -> None:
        self.lacks: dict[str, str] = {}
        """What was wanted and is not there, and why."""
        self.network: HostNetwork | None = None
        self.store: Store
        self.brokers: Sequence[SiteBroker] = []
        self.home = home
        self.nodes = nodes
        self._store_hosts = store_hosts
        self._wanted = wanted or (NETWORK, DISK, DISK_ERRORS, TRACE)
        self._stack = ExitStack()
        self._disk: LoopDisk | None = None

    @abstractmethod
    def _make_store(self) -> Store: ...

    @abstractmethod
    def _make_brokers(self) -> Sequence[SiteBroker]: ...

    @abstractmethod
    def partition_dir(self, broker: SiteBroker, topic: str, topic_id: bytes, partition: int) -> Path:
        """Where a broker stores the log of a partition."""

    @property
    def queue_doors(self) -> list[str]:
        """Addresses of the queue door at each broker."""
        return []

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def sight(self) -> Sight:
        return Sight(self.bootstrap)

    def __enter__(self) -> Self:
        try:
            self._make_network()
            self.store = self._make_store()
            self._stack.callback(self.store.close)
            self.store.start(self.store.hosts)
            self.brokers = self._make_brokers()
            self._make_disk(self.brokers[-1])
            for broker in self.brokers:
                self._stack.callback(broker.close)
            self.each(self.brokers, lambda broker: broker.start())
        except BaseException:
            with suppress(BrokerDied):
                self._stack.close()
            raise
        if TRACE in self._wanted and (problem := _trace_problem()):
            self.lacks[TRACE] = problem
        return self

    def __exit__(self, *_: object) -> None:
        """Raises BrokerDied if a process has left by itself."""
        self._stack.close()

    @staticmethod
    def each(brokers: Sequence[SiteBroker], act: Callable[[SiteBroker], object]) -> None:
        """Act on all at once; the first error is raised when all are done."""
        with ThreadPoolExecutor(max(1, len(brokers))) as threads:
            done = [threads.submit(act, broker) for broker in brokers]
        for one in done:
            one.result()

    def has(self, part: str) -> bool:
        if part == MEMBERS:
            return self.network is not None and len(self.store.hosts) > 1
        if part in (STORE, CLOCK, QUEUE_DOOR):
            return part not in self.lacks
        return part in self._wanted and part not in self.lacks

    def broker(self, node_id: int | None) -> SiteBroker | None:
        return next((broker for broker in self.brokers if broker.node_id == node_id), None)

    def controller(self) -> SiteBroker | None:
        """The broker that holds the controller session, as a broker says; None if none answers."""
        return self.broker(self.sight.controller())

    def client_wrapper(self, slot: int) -> tuple[str, ...]:
        """The command that runs a worker where its network can be cut."""
        if self.network is None:
            return ()
        return self.network.wrapper(CLIENT_HOSTS[slot % len(CLIENT_HOSTS)])

    # -- disk

    @property
    def disk_broker(self) -> SiteBroker:
        """The broker with the small disk."""
        return self.brokers[-1]

    @property
    def disk(self) -> LoopDisk:
        assert self._disk is not None
        return self._disk

    def fill_disk(self) -> None:
        with (self.disk.root / _BALLAST).open("wb", buffering=0) as ballast:
            for size in (1 << 20, 1 << 12, 1):
                with suppress(OSError):
                    while ballast.write(bytes(size)) == size:
                        pass

    def free_disk(self) -> None:
        (self.disk.root / _BALLAST).unlink(missing_ok=True)

    def _make_disk(self, broker: SiteBroker) -> None:
        if DISK not in self._wanted:
            return
        image = broker.home / "disk.img"
        broker.data_dir.mkdir(parents=True)
        with image.open("wb") as out:
            out.truncate(_DISK_BYTES)
        disk = LoopDisk(image, broker.data_dir)
        try:
            subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True, capture_output=True)
            disk.mount()
        except (OSError, subprocess.CalledProcessError) as refused:
            self.lacks[DISK] = self.lacks[DISK_ERRORS] = f"no loop device with ext4 can be mounted: {refused}"
            return
        if not disk.can_turn_read_only:
            self.lacks[DISK_ERRORS] = "this kernel cannot provoke an error in ext4"
        self._disk = disk
        self._stack.callback(disk.unmount, lazily=True)

    # -- network

    def _make_network(self) -> None:
        if NETWORK not in self._wanted:
            return
        if problem := network_problem():
            self.lacks[NETWORK] = problem
            return
        names = [f"broker-{number}" for number in range(1, self.nodes + 1)]
        network = HostNetwork([*names, *self._store_hosts, *CLIENT_HOSTS])
        self.network = self._stack.enter_context(network)


class PenstockSite(Site):
    failures = ("CRITICAL", "Traceback (most recent call last)")

    def __init__(self, home: Path, nodes: int, store: str, rf: int, wanted: Sequence[str] = ()) -> None:
        super().__init__(home, nodes, HOSTS[store], wanted)
        self._kind = store
        self._rf = rf

    def _make_store(self) -> Store:
        if self._kind == COORDINATOR:
            return CoordinatorStore(self.home, SESSION_MS, self.network)
        return EtcdStore(self.home, self.network)

    def _make_brokers(self) -> list[PenstockBroker]:
        return [
            PenstockBroker(node_id, self.home, self.store.url, self.network, self._rf)
            for node_id in range(1, self.nodes + 1)
        ]

    def partition_dir(self, broker: SiteBroker, topic: str, topic_id: bytes, partition: int) -> Path:
        return broker.data_dir / "topics" / topic_id.hex() / str(partition)

    @property
    def queue_doors(self) -> list[str]:
        return [
            f"{broker.host}:{broker.queue_port}"
            for broker in self.brokers
            if isinstance(broker, PenstockBroker)
        ]


def _trace_problem() -> str:
    if os.geteuid() != 0:
        return "tracing a process needs root"
    return "" if shutil.which("strace") else "strace is not installed"
