"""A whole system as processes: the settings file of seed 004, a coordinator that is killed and followed by another, the
commands on services, and refusals."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from conditions import until
from e2e.acked import Producing, producing, read_all
from e2e.cluster_up import EXIT_S_MAX, QUICK, is_running, run
from penstock import Admin
from penstock.apps import restart_backoff, supervised_process
from penstock.apps.control import local_cluster
from penstock.apps.control.cluster_plan import plan_cluster
from penstock.apps.control.cluster_ready import ClusterReady
from penstock.apps.control.cluster_run import run_cluster
from penstock.apps.control.earlier_run import find_processes, lock_holder
from penstock.apps.control.services import Health, ServiceError, Services, ServiceStatus
from penstock.apps.control.system_settings import SystemSettings
from penstock.node.settings_loader import load_settings

SEED_FILE = """\
coordinator:
  port: 8080
  console_port: 8081
  broker_count: 5
  broker_executable: ./bin/broker
      
broker:
  base_port: 9092  # Brokers will use ports 9092-9096
  data_dir: ./data
  storage: memory  # memory | disk
  
topics:
  default_partitions: 10  # Distributed across 5 brokers
  replication_factor: 2
  
consumer:
  session_timeout_ms: 10000
  heartbeat_interval_ms: 3000
  
producer:
  batch_size: 16384
  linger_ms: 100
  
# Node.js client configurations
nodejs_writer:
  port: 3001
  producer_url: localhost:9093
  
nodejs_reader:
  port: 3002
  consumer_url: localhost:9094
"""  # noqa: W293 - the file as it is printed in the seed

NAMES = ["metadata", "broker-1", "broker-2", "producer", "consumer"]


@contextmanager
def swept(root: Path) -> Iterator[Path]:
    """Whatever the test did, no process of the directory remains."""
    try:
        yield root
    finally:
        if holder := lock_holder(root):
            os.kill(int(holder), signal.SIGKILL)
        for one in find_processes(root / "run"):
            os.kill(one.pid, signal.SIGKILL)


def pids(root: Path) -> dict[str, int]:
    return {one.name: one.pid for one in find_processes(root / "run")}


def coordinator_pid(root: Path) -> int:
    return int((root / ".lock").read_text())


def up(root: Path, *words: str) -> dict[str, Any]:
    """Start in the background; the ready line."""
    told = run(
        *("cluster", "up", "--detach", "--json", "--any-port", "--brokers", "2", "--data-dir", str(root)),
        *(*QUICK, *words),
        code=0,
    )
    ready: dict[str, Any] = json.loads(told.splitlines()[-1])
    assert ready["pid"] == coordinator_pid(root)
    return ready


def kill_coordinator(root: Path) -> None:
    pid = coordinator_pid(root)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid), "SIGKILL did not end the coordinator")


SEED_SCRIPT = """
set -e
ip link set lo up 2>/dev/null || true
penstock() { "$PYTHON" -m penstock "$@"; }
penstock coordinator --config config.yaml --detach --ready-file up.json
cp up.json first.json
penstock pub --topic seen --message one >/dev/null 2>&1
"$PYTHON" call.py 127.0.0.1:9093 127.0.0.1:9193 127.0.0.1:9194
kill -9 $(cat data/.lock)
penstock coordinator --config config.yaml --detach --ready-file up.json
cp up.json second.json
penstock sub --topic seen --until end
penstock cluster down --config config.yaml
penstock coordinator --config config.yaml --detach --brokers 1 --no-services >/dev/null
penstock topic list -o json
penstock cluster down --config config.yaml >/dev/null
"""
"""In a network of its own, if this user may have one: the ports are those of the file."""

CALL = """
import sys, grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
for address in sys.argv[1:]:
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        while True:
            status = stub.Check(health_pb2.HealthCheckRequest(), wait_for_ready=True, timeout=60).status
            if status == health_pb2.HealthCheckResponse.SERVING:
                break
    print("serving", address)
"""


def test_the_file_of_the_seed_runs_unchanged(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(SEED_FILE)
    (tmp_path / "call.py").write_text(CALL)
    is_apart = subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode == 0
    with swept(tmp_path / "data") as root:
        ran = subprocess.run(
            [*(("unshare", "-n") if is_apart else ()), "sh", "-c", SEED_SCRIPT],
            cwd=tmp_path,
            env={**os.environ, "PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=3 * EXIT_S_MAX,
        )
        told = ran.stdout
        assert ran.returncode == 0, told + ran.stderr
        assert pids(root) == {}
        log = (root / "logs" / "cluster.log").read_text()
    first, second = (json.loads((tmp_path / name).read_text()) for name in ("first.json", "second.json"))
    assert [one["port"] for one in first["brokers"]] == [9092, 9093, 9094, 9095, 9096]
    assert [one["http_port"] for one in first["brokers"]] == [9080, 9180, 9280, 9380, 9480]
    assert {name: one["port"] for name, one in first["services"].items()} == {
        "producer": 9193,
        "consumer": 9194,
    }
    assert first["coordinator"]["port"] == 9191
    assert "serving 127.0.0.1:9093" in told, "a broker passes gRPC connections on to the producer service"
    assert first["pid"] != second["pid"] and len(second["adopted"]) == 8
    assert first["brokers"] == second["brokers"] and first["services"] == second["services"]
    assert "\none\n" in told, "records in memory outlive the coordinator"
    assert told.count("stopped cleanly") == 9
    assert told.splitlines()[-1] == "[]", "without brokers nothing is left of a memory cluster"
    assert "broker_executable is not used" in log
    producer = (root / "logs" / "producer.log").read_text()
    assert "serving" in producer


def test_producers_do_not_notice_that_the_coordinator_is_killed(tmp_path: Path) -> None:
    with swept(tmp_path / "c") as root:
        ready = up(root, "--no-services")
        with Admin(bootstrap=ready["bootstrap"]) as admin:
            admin.create_topic("kept", 4)
        before = pids(root)
        assert sorted(before) == ["broker-1", "broker-2", "coordinator"]
        writer = Producing(ready["bootstrap"], {"kept": 4}, "writer", 1, idempotent=True)
        with producing(writer):
            until(lambda: len(writer.acked) > 100, "nothing was written")
            kill_coordinator(root)
            count = len(writer.acked)
            until(lambda: len(writer.acked) > count + 100, "the brokers ended with their coordinator")
            again = up(root, "--no-services")
            assert pids(root) == before and again["bootstrap"] == ready["bootstrap"]
            assert sorted(again["adopted"]) == ["broker-1", "broker-2", "metadata"]
            assert again["cluster_id"] == ready["cluster_id"]

            os.kill(before["broker-2"], signal.SIGKILL)
            until(
                lambda: (
                    pids(root).get("broker-2", before["broker-2"]) != before["broker-2"]
                    and (root / "run" / "broker-2.json").exists()
                ),
                "an adopted broker was not restarted",
            )
            count = len(writer.acked)
            until(lambda: len(writer.acked) > count + 100, "nothing is written any more")
        assert writer.failed == []

        kill_coordinator(root)
        changed = up(root, "--no-services", "--idle-ms-max", "300000")
        assert changed["adopted"] == ["metadata"], "brokers with other settings are started anew"
        log = (root / "logs" / "cluster.log").read_text()
        assert "broker-1 of an earlier run is stopped and started anew: its settings or ports differ" in log

        kill_coordinator(root)
        told = run("cluster", "down", "--data-dir", str(root), code=0)
        assert told.count("stopped cleanly") == 3 and pids(root) == {}
        assert list((root / "run").iterdir()) == []
        assert "Nothing is running" in run("cluster", "down", "--data-dir", str(root), code=0)

        last = up(root, "--no-services")
        assert last["adopted"] == []
        found = {partition: read_all(last["bootstrap"], "kept", partition)[2] for partition in range(4)}
        assert {place: found[place[1]].get(place[2]) for place in writer.acked} == writer.acked
        told = run("cluster", "down", "--data-dir", str(root), code=0)
        assert told.count("stopped cleanly") == 4 and pids(root) == {}


Scenario = Callable[[Services, ClusterReady], Coroutine[Any, Any, None]]


def play(root: Path, scenario: Scenario) -> int:
    """Run a system of two brokers in this process until the scenario has ended; returns its exit code."""
    flags = {"port": 0, "text_port": "off", "json_port": "off", "queue_port": "off", "data_dir": str(root)}
    system = SystemSettings(broker_count=2, api_port=None, console_port=None)
    ready: list[ClusterReady] = []
    failures: list[BaseException] = []

    @asynccontextmanager
    async def frontend(services: Services) -> AsyncIterator[None]:
        async def act() -> None:
            while not ready:
                await asyncio.sleep(0.01)
            try:
                await scenario(services, ready[0])
            except BaseException as error:  # noqa: BLE001 - raised again by the test
                failures.append(error)
            services.shut_down()

        task = asyncio.create_task(act())
        yield
        task.cancel()

    plan = plan_cluster(load_settings(None, {}, flags), 2, system=system)
    code = run_cluster(
        plan, ready.append, logs_to_files=True, outlives=True, frontends={"scenario": frontend}
    )
    if failures:
        raise failures[0]
    return code


def by_name(services: Services) -> dict[str, ServiceStatus]:
    return {one.name: one for one in services.status()}


async def awaited(services: Services, name: str, wanted: Callable[[ServiceStatus], bool]) -> ServiceStatus:
    while not wanted(by_name(services)[name]):
        await asyncio.sleep(0.01)
    return by_name(services)[name]


def is_healthy(one: ServiceStatus) -> bool:
    return one.health is Health.HEALTHY


def test_services_obey_and_tell_how_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_process, "RESTART_S", 0.01)
    monkeypatch.setattr(restart_backoff, "WINDOW_S", 6_000.0)
    monkeypatch.setattr(local_cluster, "EXITS_MAX", 2)

    async def scenario(services: Services, ready: ClusterReady) -> None:
        first = await _check_first_status(services, ready)

        await asyncio.to_thread(_create_topic, services.bootstrap)
        for name in ("broker-2", "producer"):
            await services.stop(name)
            await services.stop(name)
            status = by_name(services)[name]
            assert (status.health, status.pid) == (Health.STOPPED, None)
            with pytest.raises(ServiceError, match="is not running"):
                await services.kill(name)
        for name in ("broker-2", "producer"):
            await services.start(name)
            await services.start(name)
            status = await awaited(services, name, is_healthy)
            assert status.ports == first[name].ports and status.pid != first[name].pid

        await services.kill("metadata")
        again = await awaited(services, "metadata", lambda one: is_healthy(one) and one.restarts == 1)
        assert again.ports == first["metadata"].ports and "SIGKILL" in again.detail

        await services.restart_all()
        last = by_name(services)
        assert not {one.pid for one in last.values()} & {one.pid for one in first.values()}
        assert all(map(is_healthy, last.values())), last

        await _check_bad_health(services)
        await _check_fatal(services)
        with pytest.raises(ServiceError, match=r"There is no service 'x'; there are metadata, broker-1"):
            await services.stop("x")
        assert services.log_lines("metadata", 2)[-1] and len(services.log_lines("broker-1", 3)) == 3
        assert services.log_lines("broker-1", 0) == []

    with swept(tmp_path / "c") as root:
        assert play(root, scenario) == 0
        assert pids(root) == {} and list((root / "run").iterdir()) == []


async def _check_first_status(services: Services, ready: ClusterReady) -> dict[str, ServiceStatus]:
    assert list(services.names) == NAMES and services.bootstrap == ready.bootstrap
    assert services.cluster_id == ready.coordinator["cluster_id"]
    for name in NAMES:
        await awaited(services, name, is_healthy)
    first = by_name(services)
    assert [one.kind.value for one in first.values()] == [
        *("metadata", "broker", "broker", "producer", "consumer")
    ]
    assert [one.node_id for one in first.values()] == [None, 1, 2, None, None]
    assert set(first["broker-2"].ports) == {"kafka", "http"} and set(first["producer"].ports) == {"grpc"}
    assert all(one.uptime_s is not None and one.restarts == 0 for one in first.values())
    return first


async def _check_bad_health(services: Services) -> None:
    """A process that is stopped, as in a debugger, accepts connections and answers nothing."""
    consumer = by_name(services)["consumer"]
    assert consumer.pid is not None
    os.kill(consumer.pid, signal.SIGSTOP)
    status = await awaited(services, "consumer", lambda one: not is_healthy(one))
    assert status.health is Health.NOT_SERVING and "no answer" in status.detail
    os.kill(consumer.pid, signal.SIGCONT)
    await awaited(services, "consumer", is_healthy)


def _create_topic(bootstrap: str) -> None:
    with Admin(bootstrap=bootstrap) as admin:
        admin.create_topic("two", 2)


async def _check_fatal(services: Services) -> None:
    """Two exits are too many here; a start by hand begins again."""
    await services.kill("producer")
    await awaited(services, "producer", is_healthy)
    await services.kill("producer")
    fatal = await awaited(services, "producer", lambda one: one.health is Health.FATAL)
    assert fatal.pid is None and "too often" in fatal.detail and "last lines of its log" in fatal.detail
    await services.start("producer")
    await awaited(services, "producer", is_healthy)


def test_a_start_that_fails_leaves_alone_what_ran_before(tmp_path: Path) -> None:
    with swept(tmp_path / "c") as root:
        ready = up(root, "--no-services", "--brokers", "1")
        before = pids(root)
        assert f"in use by another local cluster (pid {ready['pid']})" in run(
            *("cluster", "up", "--detach", "--any-port", "--data-dir", str(root)), code=1
        )
        kill_coordinator(root)
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = str(server.getsockname()[1])
            told = run(
                *(
                    "cluster",
                    "up",
                    "--detach",
                    "--any-port",
                    "--brokers",
                    "1",
                    "--data-dir",
                    str(root),
                    *QUICK,
                ),
                *("--no-services", "--api-port", port),
                code=1,
            )
        assert f"Cannot listen on 127.0.0.1:{port} for the HTTP API of the coordinator" in told
        assert "cluster.log" in told and pids(root) == before
        shutil.rmtree(root / "broker-1" / "topics", ignore_errors=True)
        assert run("cluster", "down", "--data-dir", str(root), code=0).count("stopped cleanly") == 2


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (
            ("cluster", "up", "--console-port", "9193"),
            2,
            "the producer service and the console of the coordinator would both listen on port 9193;"
            " move one of them with --base-port or --console-port",
        ),
        (
            ("coordinator", "--any-port", "--base-port", "9"),
            2,
            "--any-port and --base-port exclude each other",
        ),
        (("cluster", "up", "--api-port", "yes"), 2, "'yes' is not a valid integer"),
        (
            ("cluster", "down", "--data-dir", "/nowhere"),
            1,
            "/nowhere is not the directory of a local cluster",
        ),
    ],
)
def test_mistakes_are_told_before_anything_starts(words: tuple[str, ...], code: int, told: str) -> None:
    assert told in run(*words, code=code)
