"""`penstock health`: what it asks, and its exit codes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.apps.cli.main import cli


@contextmanager
def answering(status: int, content: Any) -> Iterator[int]:
    """A port where every request gets this answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status if self.path == "/readyz" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(cli, ["health", *arguments], env=env)


def test_a_ready_broker() -> None:
    with answering(200, {"status": "ready", "offline_partitions": ["orders-1"]}) as port:
        told = run("--http", f"127.0.0.1:{port}")
        assert told.exit_code == 0 and "ready; offline partitions: orders-1" in told.output
        as_json = run("--http", f"127.0.0.1:{port}", "-o", "json")
        assert json.loads(as_json.output)["status"] == "ready"


def test_the_settings_say_where_it_is(tmp_path: Path) -> None:
    with answering(200, {"status": "ready", "offline_partitions": []}) as port:
        told = run(PENSTOCK_HOST="0.0.0.0", PENSTOCK_HTTP_PORT=str(port))
        assert told.exit_code == 0 and f"127.0.0.1:{port}" in told.output
        file = tmp_path / "penstock.yaml"
        file.write_text(f"http_port: {port}\n")
        assert run("--config", str(file)).exit_code == 0


def test_a_broker_that_is_not_ready() -> None:
    content = {"status": "stopping", "offline_partitions": [], "reason": "this broker is stopping"}
    with answering(503, content) as port:
        told = run("--http", f"127.0.0.1:{port}")
        assert told.exit_code == 1 and "is not ready: this broker is stopping" in told.output


@pytest.mark.parametrize(
    ("status", "content"), [(404, {"detail": "no such path"}), (200, b"hello"), (200, b"[]"), (500, {})]
)
def test_something_else(status: int, content: Any) -> None:
    with answering(status, content) as port:
        told = run("--http", f"127.0.0.1:{port}")
        assert told.exit_code == 3 and "Traceback" not in told.output


def test_nobody_there() -> None:
    with answering(200, {}) as port:
        pass
    told = run("--http", f"127.0.0.1:{port}", "--timeout", "1")
    assert told.exit_code == 3 and f"no broker answers over HTTP at 127.0.0.1:{port}" in told.output


@pytest.mark.parametrize(
    ("arguments", "env"),
    [(["--http", "a:b:c"], {}), ([], {"PENSTOCK_HTTP_PORT": "off"}), ([], {"PENSTOCK_HTTP_PORT": "0"})],
)
def test_no_address(arguments: list[str], env: dict[str, str]) -> None:
    told = run(*arguments, **env)
    assert told.exit_code == 2 and "--http" in told.output
