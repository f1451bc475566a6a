"""Everything of a cluster that faults can hit: broker processes, the metadata store, the network, a disk, clocks.

Nothing is restarted by itself. Where the machine does not allow it, there is no network or no small disk: `lacks`
says why, and the faults that need them are left out.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from checker.network import HostNetwork, network_problem
from checker.skewed_broker import write_skew
from checker.store import COORDINATOR, HOSTS, CoordinatorStore, EtcdStore, Store
from e2e.disks import LoopDisk
from penstock.testing import Broker, BrokerDied

SESSION_MS = 3_000
"""Shorter than usual, so that most pauses and cuts are longer."""
ASK_S_MAX = 2.0
_SKEWED = Path(__file__).with_name("skewed_broker.py")
_DISK_BYTES = 64 << 20
_BALLAST = "ballast"
_NO_DOORS = {"text_port": "off", "json_port": "off", "http_port": "off"}
NETWORK, DISK, TRACE, MEMBERS = "network", "disk", "trace", "members"


class SiteBroker(Broker):
    """A broker on a host of its own, with a clock that can be moved."""

    def __init__(self, node_id: int, home: Path, metadata: str, network: HostNetwork | None) -> None:
        self.node_id = node_id
        self.host_name = f"broker-{node_id}"
        flags: dict[str, str | int | bool | Path] = {
            **_NO_DOORS,
            "node_id": node_id,
            "metadata": metadata,
            "session_ms": SESSION_MS,
        }
        if network is not None:
            flags["host"] = network.address(self.host_name)
        super().__init__(home / self.host_name, flags)
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
        """Move the clock, running or not."""
        write_skew(self._skew_file, skew_ms)

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


class Site:
    """`with Site(home, 3, "coordinator") as site`: a cluster whose brokers are all ready."""

    def __init__(
        self, home: Path, nodes: int, store: str, wanted: Sequence[str] = (NETWORK, DISK, TRACE)
    ) -> None:
        self.lacks: dict[str, str] = {}
        """What was wanted and is not there, and why."""
        self.network: HostNetwork | None = None
        self.store: Store
        self.brokers: list[SiteBroker] = []
        self._home = home
        self._nodes = nodes
        self._kind = store
        self._wanted = wanted
        self._stack = ExitStack()
        self._disk: LoopDisk | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    def __enter__(self) -> Self:
        try:
            self._make_network()
            self.store = (
                CoordinatorStore(self._home, SESSION_MS, self.network)
                if self._kind == COORDINATOR
                else EtcdStore(self._home, self.network)
            )
            self._stack.callback(self.store.close)
            self.store.start(self.store.hosts)
            for node_id in range(1, self._nodes + 1):
                self.brokers.append(SiteBroker(node_id, self._home, self.store.url, self.network))
            self._make_disk(self.brokers[-1])
            for broker in self.brokers:
                self._stack.callback(broker.close)
            self.each(self.brokers, SiteBroker.start)
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
        return part in self._wanted and part not in self.lacks

    def controller(self) -> SiteBroker | None:
        """The broker that holds the controller session, as a broker says; None if none answers."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            found = admin.list_topics(timeout=ASK_S_MAX).controller_id
        except KafkaException:
            return None
        return next((broker for broker in self.brokers if broker.node_id == found), None)

    # -- disk

    @property
    def disk_broker(self) -> SiteBroker:
        """The broker with the small disk."""
        return self.brokers[-1]

    def fill_disk(self) -> None:
        assert self._disk is not None
        with (self._disk.root / _BALLAST).open("wb", buffering=0) as ballast:
            for size in (1 << 20, 1 << 12, 1):
                with suppress(OSError):
                    while ballast.write(bytes(size)) == size:
                        pass

    def free_disk(self) -> None:
        assert self._disk is not None
        (self._disk.root / _BALLAST).unlink(missing_ok=True)

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
            self.lacks[DISK] = f"no loop device with ext4 can be mounted: {refused}"
            return
        self._disk = disk
        self._stack.callback(disk.unmount, lazily=True)

    # -- network

    def _make_network(self) -> None:
        if NETWORK not in self._wanted:
            return
        if problem := network_problem():
            self.lacks[NETWORK] = problem
            return
        names = [f"broker-{number}" for number in range(1, self._nodes + 1)]
        self.network = self._stack.enter_context(HostNetwork([*names, *HOSTS[self._kind]]))


def _trace_problem() -> str:
    if os.geteuid() != 0:
        return "tracing a process needs root"
    return "" if shutil.which("strace") else "strace is not installed"
