"""The console of a real cluster on all its surfaces: TCP, HTTP, the command line, and a pipe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from conditions import until
from e2e.cluster_up import COMMAND, EXIT_S_MAX, QUICK
from e2e.tcp_console import TcpConsole
from penstock import Admin
from penstock.apps.control.console_token import TOKEN_FILE

UP = ("cluster", "up", "--brokers", "2", "--any-port", "--no-services", "--die-with-parent", *QUICK)


def get(api: str, path: str, *, token: str = "", method: str = "GET") -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://{api}{path}", headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=EXIT_S_MAX) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_every_surface_of_a_running_cluster(tmp_path: Path) -> None:
    root, log, ready_file = tmp_path / "cluster", tmp_path / "up.log", tmp_path / "up.json"
    words = [*COMMAND, *UP, "--data-dir", str(root), "--ready-file", str(ready_file)]
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=output, stderr=output)
    try:
        assert process.stdin is not None
        process.stdin.write(b"broker list\nbroker stop 9\n")
        process.stdin.close()  # the end of the input does not stop the cluster

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            return ready_file.exists()

        until(is_ready, "the cluster did not become ready")
        ready = json.loads(ready_file.read_text())
        until(
            lambda: "There is no broker 9; the brokers are 1, 2." in log.read_text(), "the pipe was not read"
        )
        _use(root, ready)
        assert process.wait(EXIT_S_MAX) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _use(root: Path, ready: dict[str, Any]) -> None:
    api, address = ready["api"], ready["console"]
    token_file = root / "run" / TOKEN_FILE
    token = token_file.read_text().strip()
    where = ["--api", api, "--data-dir", str(root)]

    def shell(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*COMMAND, "cluster", *words, *where], capture_output=True, text=True)

    with Admin(bootstrap=ready["bootstrap"]) as admin:
        admin.create_topic("orders", partitions=4, replicas=2)
    console = TcpConsole(address)
    assert "3 services" in console.greeting
    assert "needs the coordinator's token" in console.ask("broker stop 2")
    assert console.ask(f"token {token}") == "token accepted"
    assert console.ask("broker stop 2") == "broker-2: stopped; it is stopped now"
    topics = json.loads(console.ask("topics --json"))["topics"]
    assert topics == [
        {"topic": "orders", "partitions": 4, "replicas": 2, "under_replicated": 4, "offline": 0}
    ]
    leaders = json.loads(console.ask("leaders --json"))["brokers"]
    assert [(one["broker"], one["leads"]) for one in leaders] == [(1, 4), (2, 0)]
    assert "stopped cleanly" in shell("logs", "broker-2", "1").stdout
    assert get(api, "/api/v1/services/broker-2")[1]["health"] == "stopped"
    assert get(api, "/api/v1/services/broker-2/start", method="POST")[0] == 401
    assert get(api, "/api/v1/services/broker-2/start", method="POST", token=token)[0] == 200
    killed = shell("kill", "broker", "1")
    assert killed.returncode == 0, killed.stderr
    until(lambda: _healthy(shell("services", "--json").stdout) == 3, "the services do not get healthy again")
    assert json.loads(shell("services", "--json").stdout)["services"][1]["restarts"] == 1
    assert shell("broker", "stop", "9").returncode == 4
    status = subprocess.run(
        [*COMMAND, "cluster", "status", "--bootstrap", ready["bootstrap"], "--api", api],
        capture_output=True,
        text=True,
    )
    assert "services     3, all healthy" in status.stdout, status.stderr
    assert os.stat(token_file).st_mode & 0o077 == 0
    assert console.ask("restart all") == "all services restarted; 3 of 3 are healthy now"
    assert console.ask("shutdown") == "stopping all services"
    console.close()


def _healthy(text: str) -> int:
    return sum(one["health"] == "healthy" for one in json.loads(text)["services"])
