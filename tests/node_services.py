"""The Node.js writer and reader as child processes, and clients of them.

They run from a copy of their sources beside packages from the cache: the source tree stays as it is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
from websockets.sync.client import connect

from compat.roster import do_without
from compat.runtimes import node_program, npm_packages
from compat.vocabulary import MissingRuntime
from penstock.testing.child_server import ChildServer

CLIENTS = Path(__file__).resolve().parents[1] / "clients"
WRITER, READER = "nodejs-writer", "nodejs-reader"
ANSWER_S_MAX = 60.0
TOKEN = "e2e-token"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def staged(client: str, home: Path) -> Path:
    """A copy of a client's sources beside its installed dependencies. The source tree stays as it is."""
    try:
        packages = npm_packages(CLIENTS / client)
    except MissingRuntime as lacking:
        do_without(lacking)
    target = home / client
    if not target.exists():
        shutil.copytree(CLIENTS / client, target, ignore=shutil.ignore_patterns("node_modules", ".env"))
        (target / "node_modules").symlink_to(packages / "node_modules")
    return target


class NodeProcess(ChildServer):
    """The writer or the reader. Keeps its port across restarts."""

    def __init__(self, source: Path, home: Path, **settings: object) -> None:
        self.noun = source.name
        super().__init__(home)
        self._source = source
        self._settings = {name: str(value) for name, value in settings.items()}
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def _command_line(self) -> list[str]:
        own = {
            "AUTH_TOKENS": TOKEN,
            **self._settings,
            "PORT": str(self.port),
            "READY_FILE": str(self.ready_path),
        }
        settings = [f"{name}={value}" for name, value in own.items()]
        return ["env", *settings, node_program(), str(self._source / "src" / "index.js")]

    def _set_ready(self, ready: dict[str, object]) -> None:
        self.port = int(str(ready["port"]))


@contextmanager
def running_node(client: str, home: Path, **settings: object) -> Iterator[NodeProcess]:
    """A writer or reader that accepts requests."""
    process = NodeProcess(staged(client, home), home / f"{client}-home", **settings)
    process.start()
    try:
        yield process
    finally:
        process.close()


def run_npm(client: str, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`npm …` in a copy of a client's sources."""
    source = staged(client, home)
    return subprocess.run(
        ["npm", *words],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "NODE_ENV": "test"},
    )


def http_client(process: NodeProcess) -> httpx.Client:
    """A client with the token of the tests; the caller closes it."""
    return httpx.Client(base_url=process.url, headers=BEARER, timeout=ANSWER_S_MAX, trust_env=False)


class SocketReader:
    """A WebSocket of the reader whose frames a test reads one by one."""

    def __init__(self, reader: NodeProcess, **query: object) -> None:
        address = f"{reader.ws_url}/api/v1/stream?{urlencode(query)}"
        self._query = query
        self._last: dict[str, Any] = {}
        self._open = ExitStack()
        self.socket = self._open.enter_context(
            connect(address, additional_headers=BEARER, max_size=None, proxy=None, ping_interval=None)
        )
        self.acknowledges = query.get("ack") == "client"

    def read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.socket.recv(timeout=ANSWER_S_MAX))
        except TimeoutError:
            raise AssertionError(f"nothing arrives at {self._query}, after {self._last}") from None
        self._last = found
        return found

    def until(self, kind: str) -> dict[str, Any]:
        """The next frame of that kind; earlier others are skipped."""
        while (frame := self.read())["type"] != kind:
            assert frame["type"] != "error", frame
        return frame

    def message(self) -> dict[str, Any]:
        return self._take(self.until("message"))

    def _take(self, frame: dict[str, Any]) -> dict[str, Any]:
        if self.acknowledges and frame["type"] == "message":
            place = {name: frame[name] for name in ("topic", "partition", "offset")}
            self.socket.send(json.dumps({"type": "ack", **place}))
        return frame

    def drain(self) -> None:
        """Read, and acknowledge, what has arrived."""
        with suppress(TimeoutError):
            while True:
                self._take(json.loads(self.socket.recv(timeout=0)))

    def values(self, count: int) -> list[Any]:
        return [self.message()["value"] for _ in range(count)]

    def until_values(self, wanted: Iterable[Any]) -> list[Any]:
        """Everything that arrives until all of these were there."""
        missing, found = set(wanted), []
        while missing:
            value = self.message()["value"]
            found.append(value)
            missing.discard(value)
        return found

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> SocketReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
