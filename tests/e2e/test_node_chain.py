"""`make run`, its console, both Node.js services, and then REST → writer → gRPC → brokers → gRPC → reader → WebSocket,
while a broker and both gRPC services are killed at the console."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from conditions import until
from e2e.cluster_up import EXIT_S_MAX, QUICK, is_running
from e2e.tcp_console import TcpConsole
from node_services import READER, WRITER, NodeProcess, SocketReader, http_client, running_node
from penstock import Admin
from penstock.apps.control.console_token import TOKEN_FILE

ROOT = Path(__file__).parents[2]
TOPIC = "user-events"
PARTITIONS = 3
POSTS_PER_PHASE = 30
SESSION_MS = 4_000
"""Of members that a killed service leaves behind, and of brokers."""
POST_S_MAX = 60
UP = (
    *("--any-port", "--no-console", "--die-with-parent", *QUICK),
    *("--session-ms", str(SESSION_MS), "--group-session-ms-min", str(SESSION_MS)),
)


class System:
    """Five brokers and the gRPC services, as `make run` starts them, and their console."""

    def __init__(self, ready: dict[str, Any], root: Path) -> None:
        self.bootstrap: str = ready["bootstrap"]
        self.producer, self.consumer = (
            f"{ready['services'][name]['host']}:{ready['services'][name]['port']}"
            for name in ("producer", "consumer")
        )
        self.console = TcpConsole(ready["console"])
        assert (
            self.console.ask(f"token {(root / 'run' / TOKEN_FILE).read_text().strip()}") == "token accepted"
        )

    def health(self) -> dict[str, str]:
        services = json.loads(self.console.ask("status --json"))["services"]
        return {one["name"]: one["health"] for one in services}


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    root, ready_file, log = tmp_path / "cluster", tmp_path / "up.json", tmp_path / "up.log"
    options = " ".join((*UP, "--data-dir", str(root), "--ready-file", str(ready_file)))
    make = ["make", "-C", str(ROOT), "run", f"PYTHON={sys.executable}", f"UP={options}"]
    with log.open("wb") as output:
        process = subprocess.Popen(make, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def is_ready() -> bool:
        assert process.poll() is None, log.read_text()
        return ready_file.exists()

    coordinator = 0
    try:
        until(is_ready, "the system did not become ready")
        ready = json.loads(ready_file.read_text())
        coordinator = ready["pid"]
        yield System(ready, root)
        assert process.wait(EXIT_S_MAX) == 0, log.read_text()
    finally:
        if coordinator and is_running(coordinator):
            os.kill(coordinator, signal.SIGKILL)
        if process.poll() is None:
            process.kill()
            process.wait()


class Posts:
    """Posts numbers in the background, one after another, and remembers what was acknowledged."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.acknowledged: list[int] = []
        self.refused: list[Any] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            body = {"topic": TOPIC, "key": str(number), "value": number}
            try:
                answer = self._client.post("/api/v1/messages", json=body, timeout=2 * POST_S_MAX)
            except httpx.HTTPError as error:
                self.refused.append((number, error))
                continue
            if answer.status_code == 201:
                self.acknowledged.append(number)
            else:
                self.refused.append((number, answer.status_code, answer.text))
            number += 1

    def more(self) -> None:
        """Wait until some more posts are acknowledged."""
        wanted = len(self.acknowledged) + POSTS_PER_PHASE
        until(lambda: len(self.acknowledged) >= wanted, f"posts do not get through: {self.refused[-3:]}")

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


def use_console(system: System) -> None:
    """The session that the specification shows."""
    ask = system.console.ask
    assert [line.split()[0] for line in ask("status").splitlines()[1:]] == [
        *("metadata", *(f"broker-{one}" for one in range(1, 6)), "producer", "consumer")
    ]
    assert len(ask("broker list").splitlines()) == 1 + 5
    assert ask("broker stop 3") == "broker-3: stopped; it is stopped now"
    assert ask("broker start 3").startswith("broker-3: started")
    assert ask("producer stop") == "producer: stopped; it is stopped now"
    assert ask("producer start") == "producer: started; it is healthy now"
    assert ask("consumer restart") == "consumer: restarted; it is healthy now"


def kill_leader(system: System) -> None:
    with Admin(bootstrap=system.bootstrap) as admin:
        leader = next(one.leader for one in admin.describe_topic(TOPIC).partitions)
    assert system.console.ask(f"kill broker {leader}").startswith(f"broker-{leader}: killed")


def test_nothing_acknowledged_is_lost(system: System, tmp_path: Path) -> None:
    use_console(system)
    patience = {"REQUEST_TIMEOUT_MS": POST_S_MAX * 1_000}
    quick = {"SESSION_TIMEOUT_MS": SESSION_MS, "SOCKET_COMMIT_INTERVAL_MS": 50}
    with (
        running_node(WRITER, tmp_path, PRODUCER_URL=system.producer, **patience) as writer,
        running_node(READER, tmp_path, CONSUMER_URL=system.consumer, **quick) as reader,
        http_client(writer) as client,
    ):
        topic = {"name": TOPIC, "partitions": PARTITIONS, "replicas": 3}
        assert client.post("/api/v1/topics", json=topic).status_code == 201
        with (
            SocketReader(reader, topics=TOPIC) as every,
            SocketReader(reader, topics=TOPIC, group="chain", ack="client", **{"from": "earliest"}) as member,
        ):
            every.until("ready")
            posts = Posts(client)
            try:
                posts.more()
                kill_leader(system)
                posts.more()
                for name in ("producer", "consumer"):
                    assert system.console.ask(f"kill {name}").startswith(f"{name}: killed")
                posts.more()
            finally:
                posts.stop()
            assert posts.refused == []
            seen_by_every = every.until_values(posts.acknowledged)
            seen_by_member = member.until_values(posts.acknowledged)
            assert set(seen_by_every) == set(seen_by_member) == set(posts.acknowledged)
            assert len(posts.acknowledged) >= 3 * POSTS_PER_PHASE
            _check_committed(reader, member)
        assert (writer.stop(), reader.stop()) == (0, 0)
    until(lambda: set(system.health().values()) == {"healthy"}, "not all services are healthy again")
    assert system.console.ask("shutdown") == "stopping all services"


def _check_committed(reader: NodeProcess, member: SocketReader) -> None:
    """The group commits everything, if what is delivered once more is acknowledged too."""
    with http_client(reader) as client:

        def lag() -> int:
            member.drain()
            answer = client.get("/api/v1/offsets/chain")
            offsets = answer.json()["offsets"] if answer.is_success else []
            return sum(one["lag"] for one in offsets) if offsets else -1

        until(lambda: lag() == 0, "the group did not commit everything")
