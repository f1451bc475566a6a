"""A real cluster on this machine for tests: a coordinator and brokers, each a child process of the test.

Nothing is restarted behind the test's back: a broker that was killed is down until `start`.

    with running_cluster(brokers=3, storage="memory") as cluster:
        Producer(bootstrap=cluster.bootstrap)
        cluster.broker(2).kill()
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from penstock.testing.broker import Broker, Flag
from penstock.testing.child_server import ChildServer

SESSION_MS = 6_000


class CoordinatorServer(ChildServer):
    """The process that stores the cluster's metadata. Keeps its port across restarts."""

    noun = "coordinator"

    def __init__(self, home: Path, session_ms: int, host: str = "127.0.0.1") -> None:
        super().__init__(home)
        self._session_ms = session_ms
        self._host = host
        self._port = 0
        self._secret_file = ""

    @property
    def url(self) -> str:
        """The setting `metadata` of its brokers."""
        assert self._port, "the coordinator was not started yet"
        return f"coordinator://{self._host}:{self._port}?secret={quote(self._secret_file)}"

    def _command_line(self) -> list[str]:
        return [
            *(sys.executable, "-m", "penstock.apps.coordinator"),
            *("--data-dir", str(self.data_dir), "--host", self._host, "--port", str(self._port)),
            *("--session-ttl-ms", str(self._session_ms), "--ready-file", str(self.ready_path)),
        ]

    def _set_ready(self, ready: dict[str, object]) -> None:
        self._port = int(str(ready["port"]))
        self._secret_file = str(ready["secret_file"])


class Cluster:
    """A coordinator and its brokers. Node ids count from 1. The flag `metadata` names another store."""

    def __init__(self, home: Path, brokers: int, flags: dict[str, Flag]) -> None:
        self.home = home
        self.coordinator = CoordinatorServer(
            home / "coordinator", int(str(flags.get("session_ms", SESSION_MS)))
        )
        self.brokers: list[Broker] = []
        self._count = brokers
        self._flags = flags

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, running or not."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def broker(self, node_id: int) -> Broker:
        """The broker with this node id, to kill, stop and start it."""
        return self.brokers[node_id - 1]

    def start(self) -> None:
        """Start every process and wait until all are ready. Raises BrokerDied."""
        if "metadata" not in self._flags:
            self.coordinator.start()
        self.brokers = [self._broker(number) for number in range(1, self._count + 1)]
        _each(self.brokers, Broker.start)

    def add_broker(self) -> Broker:
        """Start one more broker, with the next node id."""
        broker = self._broker(len(self.brokers) + 1)
        broker.start()
        self.brokers.append(broker)
        return broker

    def close(self) -> None:
        """Stop what runs, the coordinator last. Raises BrokerDied if a process had exited by itself."""
        try:
            _each(self.brokers, Broker.close)
        finally:
            self.coordinator.close()

    def _broker(self, node_id: int) -> Broker:
        own: dict[str, Flag] = {"node_id": node_id}
        if "metadata" not in self._flags:
            own["metadata"] = self.coordinator.url
        return Broker(self.home / f"broker-{node_id}", {**self._flags, **own})


def _each(brokers: Sequence[Broker], act: Callable[[Broker], None]) -> None:
    """Act on all brokers at once; the first error is raised when all are done."""
    with ThreadPoolExecutor(max(1, len(brokers))) as threads:
        done = [threads.submit(act, broker) for broker in brokers]
    for one in done:
        one.result()


@contextmanager
def running_cluster(brokers: int = 3, home: Path | None = None, **flags: Flag) -> Iterator[Cluster]:
    """A ready cluster; keywords are the flags of `penstock start` for all brokers. `home` is not deleted."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as scratch:
        cluster = Cluster(home or Path(scratch), brokers, dict(flags))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.close()
