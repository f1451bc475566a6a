"""A local cluster as processes: ready, crashes and restarts, signals, kill -9 of everything, and refusals."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from conditions import until
from e2e.cluster_up import COMMAND, EXIT_S_MAX, QUICK, TIED, LocalUp, cluster_up, ended, is_running, run
from penstock import Admin, Consumer, Producer
from penstock.testing import running_broker


def all_gone(pids: list[int]) -> None:
    until(lambda: not any(map(is_running, pids)), "processes were left behind")


def can_connect(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def test_it_is_ready_restarts_what_crashes_and_stops_cleanly(tmp_path: Path) -> None:
    with cluster_up(tmp_path) as up:
        ready, pids = up.ready, up.pids()
        assert [broker["node_id"] for broker in ready["brokers"]] == [1, 2]
        assert ready["bootstrap"] == ",".join(f"127.0.0.1:{broker['port']}" for broker in ready["brokers"])
        assert all(can_connect(broker[door]) for broker in ready["brokers"] for door in ("port", "http_port"))
        assert all("text_port" not in broker for broker in ready["brokers"])

        second, coordinator = ready["brokers"][1], ready["coordinator"]
        os.kill(second["pid"], signal.SIGKILL)
        again = up.await_restart("broker-2", second["pid"])
        assert (again["port"], again["http_port"]) == (second["port"], second["http_port"])
        assert "broker-2 exited with SIGKILL, restarting in 0.5 s" in up.output()
        assert is_running(pids[1]), "the other broker was not touched"

        os.kill(coordinator["pid"], signal.SIGKILL)
        assert up.await_restart("coordinator", coordinator["pid"])["port"] == coordinator["port"]

        pids += [again["pid"], up.child("coordinator")["pid"]]
        assert up.end() == 0, up.output()
        assert "stopped cleanly" in up.output()
        assert not up.ready_file.exists() and not list((up.root / "run").iterdir())
        all_gone(pids)
        for number in (1, 2):
            assert "stopped cleanly" in (up.root / "logs" / f"broker-{number}.log").read_text()
            assert (up.root / f"broker-{number}" / "clean-stop.json").exists()


def test_kill_9_leaves_no_orphans_and_the_next_start_waits_for_them(tmp_path: Path) -> None:
    with cluster_up(tmp_path) as up:
        pids, before = up.pids(), up.ready["cluster_id"]
        up.end(signal.SIGKILL)
        with cluster_up(tmp_path) as second:
            all_gone(pids)
            assert second.ready["cluster_id"] == before
            assert second.end() == 0


def test_records_survive_kill_9_of_every_process(tmp_path: Path) -> None:
    with cluster_up(tmp_path, brokers=3) as up:
        ready = up.ready
        with Admin(bootstrap=ready["bootstrap"]) as admin:
            admin.create_topic("spread", 6)
        for number, name in enumerate(("coordinator", "broker-1", "broker-2", "broker-3")):
            with Producer(bootstrap=ready["bootstrap"]) as producer:
                for value in range(60 * number, 60 * (number + 1)):
                    producer.send("spread", str(value))
            pid = up.child(name)["pid"]
            os.kill(pid, signal.SIGKILL)
            up.await_restart(name, pid)
        with Consumer("spread", bootstrap=ready["bootstrap"], until_end=True) as consumer:
            assert sorted(int(message.value or b"") for message in consumer) == list(range(240))
        assert up.end() == 0, up.output()


def test_a_signal_to_all_processes_at_once_lets_brokers_leave(tmp_path: Path) -> None:
    """As service managers send it."""
    with cluster_up(tmp_path) as up:
        pids = up.pids()
        for pid in (*pids, up.process.pid):
            os.kill(pid, signal.SIGTERM)
        assert up.process.wait(EXIT_S_MAX) == 0, up.output()
        all_gone(pids)
        for number in (1, 2):
            log = (up.root / "logs" / f"broker-{number}.log").read_text()
            assert "stopped cleanly" in log and "could not" not in log


def test_ctrl_c_stops_brokers_once(tmp_path: Path) -> None:
    """A terminal sends SIGINT to the whole foreground group."""
    with cluster_up(tmp_path) as up:
        pids = up.pids()
        os.killpg(up.process.pid, signal.SIGINT)
        assert up.process.wait(EXIT_S_MAX) == 0, up.output()
        all_gone(pids)


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    with cluster_up(tmp_path) as up:
        pids = up.pids()
        os.kill(pids[1], signal.SIGSTOP)
        up.process.send_signal(signal.SIGTERM)
        until(lambda: "stopping" in up.output(), "the first signal was not seen")
        assert up.end() == 1
        assert "second signal: killing all processes" in up.output()
        all_gone(pids)


def test_a_signal_during_the_start_is_obeyed(tmp_path: Path) -> None:
    up = LocalUp(tmp_path, ("cluster", "up", "--brokers", "2", "--base-port", "0", *QUICK, *TIED))
    with ended(up):
        until(lambda: "broker-1 started" in up.output(), "no broker was started")
        assert up.end() == 0, up.output()
        assert not list((up.root / "run").glob("broker-*.json"))


def test_a_directory_has_one_cluster_at_a_time(tmp_path: Path) -> None:
    with cluster_up(tmp_path, brokers=1) as up:
        words = ("cluster", "up", "--base-port", "0", "--data-dir", str(up.root))
        told = run(*words, code=1)
        assert f"is in use by another local cluster (pid {up.process.pid})" in told and "--data-dir" in told
        assert "holds a local cluster" in run("start", "--port", "0", "--data-dir", str(up.root), code=1)
        assert up.end() == 0


def test_a_directory_of_a_single_broker_is_not_taken(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        data = str(broker.data_dir)
    assert "holds the data of a single broker" in run("cluster", "up", "--data-dir", data, code=1)


def test_every_port_in_use_is_named_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = sorted(server.getsockname()[1] for server in (one, other))
        words = ("cluster", "up", "--brokers", "1", "--data-dir", str(tmp_path / "c"), *QUICK, *TIED)
        told = run(*words, "--base-port", str(ports[0]), "--http-port", str(ports[1]), code=1)
    kafka = f"Cannot listen on 127.0.0.1:{ports[0]} for the Kafka door of broker-1: Address already in use."
    assert f"{kafka} Choose another port with --base-port." in told
    assert f"127.0.0.1:{ports[1]} for the http door of broker-1" in told and "--http-port" in told
    assert not (tmp_path / "c" / "coordinator").exists()


def test_a_broker_that_refuses_is_quoted_and_nothing_goes_on(tmp_path: Path) -> None:
    with cluster_up(tmp_path) as up:
        assert up.end() == 0
    root = up.root
    (root / "broker-2").rename(root / "aside")
    (root / "broker-1").rename(root / "broker-2")
    words = ("cluster", "up", "--brokers", "2", "--base-port", "0", "--data-dir", str(root), *QUICK, *TIED)
    told = run(*words, code=1)
    assert "broker-2 cannot start (code 1): " in told and "belongs to node 1, not to node 2" in told


def test_fewer_brokers_than_before_is_a_warning(tmp_path: Path) -> None:
    with cluster_up(tmp_path) as up:
        assert up.end() == 0
    with cluster_up(tmp_path, brokers=1) as up:
        assert "broker-2 has data in" in up.output() and "start more brokers" in up.output()
        assert up.end() == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("cluster", "up", "--brokers", "0"), "--brokers"),
        (("cluster", "up", "--base-port", "65500"), "the port of the metadata process would be 65599"),
        (("cluster", "up", "--base-port", "x"), "'x' is not a valid integer"),
        (("start", "--cores", "100000"), "flag: --cores: found 100000; allowed: at most"),
        (("start", "--cores", "2", "--metadata", "etcd://a"), "remove it (flag --metadata)"),
        (
            ("start", "--metadata", "zk://a"),
            "'zk' is not a kind of metadata store; expected etcd://host:2379",
        ),
        (("start", "--cluster", "a,b"), "'a' is not a member of a cluster; expected for example 1@hostA"),
    ],
)
def test_mistakes_are_refused_with_exit_code_2(words: tuple[str, ...], told: str) -> None:
    assert told in run(*words, code=2)


def test_json_logs_have_the_node_id_and_a_json_line_says_all(tmp_path: Path) -> None:
    words = (
        "cluster",
        "up",
        "--json",
        "--brokers",
        "1",
        "--base-port",
        "0",
        "--data-dir",
        str(tmp_path / "c"),
    )
    up = subprocess.Popen(
        [*COMMAND, *words, *QUICK, *TIED, "--log-format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert up.stdout is not None and up.stderr is not None
        ready = json.loads(up.stdout.readline())
        assert len(ready["brokers"]) == 1 and ready["pid"] == up.pid
        up.send_signal(signal.SIGTERM)
        told = up.stderr.read()
        assert up.wait(EXIT_S_MAX) == 0
    finally:
        up.kill()
        up.communicate()
    assert all(json.loads(line)["time"] for line in told.splitlines())
    broker = (tmp_path / "c" / "logs" / "broker-1.log").read_text()
    assert {json.loads(line)["node"] for line in broker.splitlines()} == {1}
    coordinator = (tmp_path / "c" / "logs" / "coordinator.log").read_text()
    assert all(json.loads(line) for line in coordinator.splitlines())


def test_one_broker_per_core(tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    assert len(cores) > 1, "one broker per core needs two cores"
    up = LocalUp(tmp_path, ("start", "--cores", "2", "--port", "0", *QUICK))
    with ended(up):
        up.await_ready()
        ready, pids = up.ready, up.pids()
        assert [os.sched_getaffinity(broker["pid"]) for broker in ready["brokers"]] == [
            {cores[0]},
            {cores[1]},
        ]
        assert ready["bootstrap"].count(",") == 1 and (ready["host"], ready["port"]) == (
            ready["brokers"][0]["host"],
            ready["brokers"][0]["port"],
        )
        assert up.end() == 0, up.output()
        assert " broker-2 serve " in up.output(), "logs of the brokers go to stderr"
        all_gone(pids)
