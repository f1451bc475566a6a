"""`penstock start --cluster`: brokers that run etcd, wait for a majority, and take it along when they go."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.request import urlopen

import pytest

from checker.sight import view
from conditions import until
from e2e.cluster_up import COMMAND, EXIT_S_MAX, is_running
from e2e.move_clients import raw_cluster
from etcd_cluster import free_addresses
from penstock import Admin, Consumer, Producer
from penstock.client.raw.cluster import Cluster
from penstock.testing import Broker


def etcd_of(broker: Broker) -> int:
    """The process id of the member that a broker runs; 0 if there is none now."""
    children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
    return next((int(pid) for pid in children if is_running(int(pid))), 0)


def gone(pid: int) -> None:
    until(lambda: not is_running(pid), "etcd outlived its broker")


def etcd_health(broker: Broker) -> set[str]:
    """The values of `penstock_etcd_up`."""
    with urlopen(f"http://{broker.host}:{broker.http_port}/metrics", timeout=EXIT_S_MAX) as answer:
        lines = answer.read().decode().splitlines()
    return {line.split()[-1] for line in lines if line.startswith("penstock_etcd_up{")}


@pytest.fixture
def members() -> list[str]:
    """The addresses of three members."""
    return [str(address) for address in free_addresses(3)]


@pytest.fixture
def three(tmp_path: Path, members: list[str]) -> Iterator[list[Broker]]:
    """Brokers 1 to 3, each with a member, not yet started."""
    listed = ",".join(f"{number}@{address}" for number, address in enumerate(members, 1))
    brokers = [Broker(tmp_path / str(number), {"node_id": number, "cluster": listed}) for number in (1, 2, 3)]
    with ExitStack() as running:
        for broker in brokers:
            running.callback(broker.close)
        yield brokers


def await_majority_wanted(broker: Broker) -> None:
    until(lambda: "waiting for a majority of the etcd members" in broker.output(), "it did not wait")


def test_three_machines_wait_for_each_other_and_lose_one(three: list[Broker]) -> None:
    first, second, third = three
    first.launch()
    await_majority_wanted(first)
    assert first.stop() == 0, "a signal is obeyed while it waits"
    for broker in three:
        broker.launch()
    for broker in three:
        broker.await_ready()
    bootstrap = ",".join(broker.bootstrap for broker in three)
    with Admin(bootstrap=bootstrap) as admin:
        admin.create_topic("spread", 6)
    with Producer(bootstrap=bootstrap) as producer:
        for number in range(60):
            producer.send("spread", str(number))

    assert etcd_health(first) == {"1"}, "the endpoints in use answer"

    member = etcd_of(second)
    os.kill(member, signal.SIGKILL)
    until(lambda: etcd_of(second) not in (0, member), "etcd was not restarted")
    assert "etcd exited with SIGKILL, restarting" in second.output()

    member = etcd_of(third)
    third.kill()
    gone(member)
    third.start()
    with Consumer("spread", bootstrap=bootstrap, until_end=True) as consumer:
        assert sorted(int(message.value or b"") for message in consumer) == list(range(60))

    members = [etcd_of(broker) for broker in three]
    for broker in reversed(three):
        # Without a majority the last one cannot leave the cluster, and tries for a while.
        assert broker.stop(EXIT_S_MAX) == 0
    for pid in members:
        gone(pid)


def test_a_broker_whose_disk_was_lost_is_replaced(three: list[Broker], members: list[str]) -> None:
    """Its records come from the other brokers, its member of etcd from the other members."""
    for broker in three:
        broker.launch()
    for broker in three:
        broker.await_ready()
    bootstrap = ",".join(broker.bootstrap for broker in three)
    with Admin(bootstrap=bootstrap) as admin:
        admin.create_topic("spread", 3, replicas=3)
    with Producer(bootstrap=bootstrap) as producer:
        for number in range(30):
            producer.send("spread", str(number))
    lost, other = three[1], members[0]
    member = etcd_of(lost)
    lost.kill()
    gone(member)
    shutil.rmtree(lost.data_dir)
    (old,) = [one for one in etcdctl(other, "member", "list").splitlines() if "broker-2" in one]
    etcdctl(other, "member", "remove", old.split(",")[0])
    added = ("member", "add", "broker-2", f"--peer-urls={old.split(', ')[3]}")
    until(lambda: is_done(other, *added), "the member was not added")  # etcd refuses for some seconds
    lost.start()
    until(lambda: "unstarted" not in etcdctl(other, "member", "list"), "the member did not join")
    with closing(raw_cluster(bootstrap)) as cluster:
        until(lambda: are_in_sync(cluster), "its replicas are not in sync again")
    with Consumer("spread", bootstrap=bootstrap, until_end=True) as consumer:
        assert sorted(int(message.value or b"") for message in consumer) == list(range(30))
    for broker in reversed(three):
        assert broker.stop(EXIT_S_MAX) == 0


def _etcdctl(address: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["etcdctl", "--endpoints", address, *words], capture_output=True, text=True, timeout=EXIT_S_MAX
    )


def is_done(address: str, *words: str) -> bool:
    return _etcdctl(address, *words).returncode == 0


def etcdctl(address: str, *words: str) -> str:
    ran = _etcdctl(address, *words)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def are_in_sync(cluster: Cluster) -> bool:
    return all(len(one.isr) == 3 for name, one in view(cluster).partitions.items() if name[0] == "spread")


def test_without_etcd_the_error_says_how_to_get_it(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*COMMAND, "start", "--cluster", "1@127.0.0.1:1", "--node-id", "1", "--data-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=EXIT_S_MAX,
        env={**os.environ, "PATH": str(Path(sys.executable).parent)},
    )
    assert ran.returncode == 1 and "Traceback" not in ran.stderr
    assert "--cluster needs the program `etcd`" in ran.stderr and "apt-get install etcd-server" in ran.stderr


def test_a_broker_that_is_not_listed_is_refused(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*COMMAND, "start", "--cluster", "1@127.0.0.1:1,2@127.0.0.1:3", "--data-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=EXIT_S_MAX,
    )
    assert ran.returncode == 1 and "set --node-id to one of them" in ran.stderr
