"""`penstock cluster <words>` against a coordinator's HTTP API on a real socket, with services in memory."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from conditions import WAIT_S_MAX
from memory_services import MemoryFacts, MemoryServices
from penstock.apps.cli.cluster_words import services_of, services_text
from penstock.apps.cli.main import cli
from penstock.apps.control.console import Console
from penstock.apps.control.console_token import TOKEN_FILE, make_token
from penstock.apps.control.http_api import http_api
from penstock.apps.control.services import Health
from penstock.core.model import Address
from pty_terminal import on_terminal


class Coordinator:
    """An API in a thread of its own."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.services = MemoryServices()
        (data_dir / "run").mkdir()
        self._token = make_token(data_dir / "run")
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        console = Console(self.services, MemoryFacts())
        any_port = Address("127.0.0.1", 0)
        async with http_api(self.services, any_port, token=self._token, console=console) as address:
            self.api = str(address)
            self._ready.set()
            await self._stopped.wait()

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(WAIT_S_MAX)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(WAIT_S_MAX)

    def run(self, line: str, *options: str) -> Result:
        where = ["--api", self.api, "--data-dir", str(self.data_dir)]
        return CliRunner().invoke(cli, ["cluster", *line.split(), *where, *options])

    def console(self) -> list[str]:
        """The command of a console in a process of its own."""
        where = ["--api", self.api, "--data-dir", str(self.data_dir)]
        return [sys.executable, "-m", "penstock", "cluster", "console", *where]


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    found = Coordinator(tmp_path_factory.mktemp("cluster"))
    found.start()
    try:
        yield found
    finally:
        found.stop()


def test_words_are_those_of_the_console(coordinator: Coordinator) -> None:
    for line, answer, done in (
        ("broker stop 3", "broker-3: stopped; it is stopped now\n", "stop broker-3"),
        ("broker start 3", "broker-3: started; it is healthy now\n", "start broker-3"),
        ("producer restart", "producer: restarted; it is healthy now\n", "restart producer"),
        ("consumer stop", "consumer: stopped; it is stopped now\n", "stop consumer"),
        ("kill broker 2", "broker-2: killed; it is dead now\n", "kill broker-2"),
        ("restart all", "all services restarted; 8 of 8 are healthy now\n", "restart consumer"),
    ):
        result = coordinator.run(line)
        assert (result.exit_code, result.output) == (0, answer), line
        assert coordinator.services.done[-1] == done
    assert coordinator.run("services").output.startswith("service ")
    assert coordinator.run("broker list").output.startswith("broker  health")
    assert "orders-0" in coordinator.run("leaders").output
    assert "billing" in coordinator.run("lag").output
    assert coordinator.run("logs broker-2 1").output == "line 49 of broker-2\n"


def test_json(coordinator: Coordinator) -> None:
    found = json.loads(coordinator.run("services", "--json").output)
    assert [one["name"] for one in found["services"]] == list(coordinator.services.names)
    assert json.loads(coordinator.run("logs producer 1", "--json").output)["lines"] == ["line 49 of producer"]


def test_failures_have_their_exit_codes(coordinator: Coordinator, tmp_path: Path) -> None:
    nonsense = coordinator.run("broker stp 3")
    assert (nonsense.exit_code, "nearest is 'stop'" in nonsense.output) == (2, True)
    missing = coordinator.run("broker stop 9")
    assert (missing.exit_code, "the brokers are 1, 2, 3, 4, 5" in missing.output) == (4, True)
    coordinator.services.refuses = "It cannot stop now."
    try:
        refused = coordinator.run("broker stop 1")
    finally:
        coordinator.services.refuses = None
    assert (refused.exit_code, "It cannot stop now." in refused.output) == (5, True)
    stranger = coordinator.run("broker stop 1", "--data-dir", str(tmp_path))
    assert stranger.exit_code == 5
    assert "--token-file" in stranger.output and str(tmp_path / "run" / TOKEN_FILE) in stranger.output
    assert coordinator.run("services", "--data-dir", str(tmp_path)).exit_code == 0


def test_a_token_that_others_can_read_is_not_used(coordinator: Coordinator, tmp_path: Path) -> None:
    make_token(tmp_path)
    (tmp_path / TOKEN_FILE).chmod(0o644)
    result = coordinator.run("producer stop", "--token-file", str(tmp_path / TOKEN_FILE))
    assert (result.exit_code, "chmod 600" in result.output) == (1, True)
    (tmp_path / "other").write_text("not a token", encoding="ascii")
    (tmp_path / "other").chmod(0o600)
    result = coordinator.run("producer stop", "--token-file", str(tmp_path / "other"))
    assert (result.exit_code, "does not contain a token" in result.output) == (1, True)


def test_no_coordinator() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        api = f"127.0.0.1:{unused.getsockname()[1]}"
    for words in (["broker", "list"], ["console"]):
        result = CliRunner().invoke(cli, ["cluster", *words, "--api", api])
        assert result.exit_code == 3
        assert f"No coordinator answers at {api}: connection refused" in result.output
        assert "penstock cluster up" in result.output
    assert CliRunner().invoke(cli, ["cluster", "broker", "list", "--api", "nowhere"]).exit_code == 2
    assert services_of(api, "x") is None


class _Stranger(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = {"/html": b"<html>", "/list": b"[]"}.get(self.server.kind, b"{}")  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Silent."""

    do_POST = do_GET


@pytest.mark.parametrize("kind", ["/html", "/list", "/empty"])
def test_another_server_at_that_port_is_named(kind: str) -> None:
    with HTTPServer(("127.0.0.1", 0), _Stranger) as server:
        server.kind = kind  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            api = f"127.0.0.1:{server.server_port}"
            result = CliRunner().invoke(cli, ["cluster", "services", "--api", api])
            assert (result.exit_code, "No coordinator answers" in result.output) == (3, True)
            assert services_of(api, "x") is None
        finally:
            server.shutdown()
            thread.join()


def test_a_console_on_a_terminal_of_another_process(coordinator: Coordinator, tmp_path: Path) -> None:
    with on_terminal(coordinator.console(), tmp_path) as at:
        at.expect(">")
        at.expect("broker-5")  # the toolbar
        at.run("broker stop 3", "broker-3: stopped; it is stopped now")
        at.run("status --json", '"cluster_id"')
        at.run("broker stop 9", "the brokers are 1, 2, 3, 4, 5")
        at.run("broker start 3", "broker-3: started; it is healthy now")
        at.run("shutdown", "Stop all services of the cluster? [y/N]")
        at.run("n", ">")
        at.type("\x04")  # Ctrl-D leaves this console only
        at.expect("bye; the cluster runs on")
        assert at.process.wait(WAIT_S_MAX) == 0
    assert "shut down" not in coordinator.services.done


def test_a_console_that_reads_a_pipe(coordinator: Coordinator) -> None:
    lines = "broker list --json\nstauts\nproducer stop\nproducer start"
    done = subprocess.run(
        coordinator.console(), input=lines, capture_output=True, text=True, timeout=WAIT_S_MAX
    )
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert len(json.loads(first)["brokers"]) == 5
    assert others == [
        "error: 'stauts' is not a command. The nearest is 'status'. Type help for a list.",
        "producer: stopped; it is stopped now",
        "producer: started; it is healthy now",
    ]


def test_services_beside_the_status_of_the_cluster(coordinator: Coordinator) -> None:
    assert services_of(coordinator.api, "another cluster") is None
    found = services_of(coordinator.api, coordinator.services.cluster_id)
    assert found is not None
    assert services_text(found) == "8, all healthy"
    coordinator.services.set("broker-3", Health.CATCHING_UP)
    try:
        found = services_of(coordinator.api, coordinator.services.cluster_id)
    finally:
        coordinator.services.set("broker-3", Health.HEALTHY)
    assert found is not None
    assert services_text(found) == "8, broker-3 catching up"
