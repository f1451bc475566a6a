"""Tests of one broker, run against a cluster: `TEST_NODES=3`, with `TEST_STORE=etcd` on a real etcd.

`running_broker` then starts a cluster that looks like one broker. Each of its doors is that of another member, so that
most calls are about partitions and coordinators elsewhere; a kill hits all members at once, as it hits a single broker.
"""

from __future__ import annotations

import fnmatch
import os
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import penstock.testing
import penstock.testing.broker
import penstock.testing.fixtures
from etcd_cluster import EtcdCluster, running_etcd
from penstock.testing import Broker, Cluster, Flag, running_cluster

NODES = int(os.environ.get("TEST_NODES", "1"))
STORE = os.environ.get("TEST_STORE", "coordinator")
STORES = ("coordinator", "etcd")

ONE_BROKER_ONLY: dict[str, str] = {
    "tests/contract/test_doors.py::test_the_limit_of_connections_is_one_for_all_doors": "a limit of one process",
    "tests/contract/test_files.py::*": "starts no broker",
    "tests/contract/test_metadata*.py::*": "starts no broker: the stores themselves",
    "tests/contract/test_etcd_faults.py::*": "starts no broker: the stores themselves",
    "tests/contract/test_authorization.py::*": "starts no broker: verbs in one process",
    "tests/compat/test_validation.py::test_kafka_answers_as_the_table_says": "asks Apache Kafka",
}
"""Tests that make no sense with several brokers, by pattern of their id, and why."""

_shared = ExitStack()
_etcd: list[EtcdCluster] = []


class ManyBrokers:
    """A cluster with the interface of `Broker`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._members = cluster.brokers
        self.home = cluster.home
        self.host = self._members[0].host

    def _member(self, number: int) -> Broker:
        return self._members[number % len(self._members)]

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    @property
    def port(self) -> int:
        return self._member(0).port

    @property
    def text_port(self) -> int:
        return self._member(1).text_port

    @property
    def json_port(self) -> int:
        return self._member(2).json_port

    @property
    def queue_port(self) -> int:
        return self._member(0).queue_port

    @property
    def http_port(self) -> int:
        return self._member(1).http_port

    @property
    def data_dir(self) -> Path:
        return self._member(0).data_dir

    @property
    def pid(self) -> int:
        return self._member(0).pid

    @property
    def is_running(self) -> bool:
        return all(one.is_running for one in self._members)

    def output(self) -> str:
        """The logs of all members, one after the other."""
        return "".join(one.output() for one in self._members)

    def start(self) -> None:
        self._each(Broker.start)

    def launch(self) -> None:
        self._each(Broker.launch)

    def await_ready(self) -> None:
        self._each(Broker.await_ready)

    def kill(self) -> None:
        self._each(Broker.kill)

    def stop(self) -> int:
        """The highest exit code."""
        codes: list[int] = []
        self._each(lambda one: codes.append(one.stop()))
        return max(codes)

    def restart(self) -> None:
        if self.is_running:
            self.stop()
        self.start()

    def _each(self, act: Callable[[Broker], object]) -> None:
        with ThreadPoolExecutor(len(self._members)) as threads:
            for done in [threads.submit(act, one) for one in self._members]:
                done.result()


@contextmanager
def running_many_brokers(home: Path | None = None, **flags: Flag) -> Iterator[ManyBrokers]:
    """In the place of `running_broker`. A test may name node 1; the other members have the next numbers."""
    assert flags.pop("node_id", 1) == 1, "the members of a test's cluster count from 1"
    if STORE == "etcd":
        flags["metadata"] = _etcd_url()
    with running_cluster(NODES, home, **flags) as cluster:
        yield ManyBrokers(cluster)


def _etcd_url() -> str:
    """A store of its own in the etcd of this test process."""
    if not _etcd:
        _etcd.append(_shared.enter_context(running_etcd()))
    return _etcd[0].target(f"tests-{uuid.uuid4().hex[:8]}").url


def use_several_brokers() -> None:
    """Replace `running_broker`, before any test imports it."""
    if STORE not in STORES:
        raise pytest.UsageError(f"invalid TEST_STORE {STORE!r}: expected one of {', '.join(STORES)}")
    for module in (penstock.testing, penstock.testing.broker, penstock.testing.fixtures):
        module.running_broker = running_many_brokers  # type: ignore[attr-defined]


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is for one broker only."""
    left = [one for one in items if any(fnmatch.fnmatch(one.nodeid, name) for name in ONE_BROKER_ONLY)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [one for one in items if one not in left]


def close() -> None:
    """Stop what the tests of this process shared."""
    _shared.close()
