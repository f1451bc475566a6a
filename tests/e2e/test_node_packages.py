"""The Node.js clients as packages: their own tests and lint, the protocol they carry, and what they share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from node_services import CLIENTS, READER, WRITER, run_npm

SAME = ["eslint.config.js", ".prettierrc", ".prettierignore", ".npmrc", "proto/grpc/health/v1/health.proto"]
SAME += [
    "src/config/configFile.js",
    *(f"src/utils/{name}.js" for name in ("httpServer", "logger", "rpcErrors", "shutdown")),
]
SAME += [f"src/api/middleware/{name}.js" for name in ("auth", "errors", "validation")]


@pytest.mark.parametrize("client", [WRITER, READER])
def test_unit_tests_and_lint_pass(client: str, tmp_path: Path) -> None:
    for words in (("test",), ("run", "lint")):
        done = run_npm(client, tmp_path, *words)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_clients_agree_with_the_protocol_and_each_other() -> None:
    for client in (WRITER, READER):
        for copy in (CLIENTS / client / "proto" / "penstock" / "v1").glob("*.proto"):
            origin = CLIENTS.parent / "proto" / "penstock" / "v1" / copy.name
            assert copy.read_text() == origin.read_text(), f"{copy.name} of {client} is old: `make proto`"
        lock = json.loads((CLIENTS / client / "package-lock.json").read_text())
        assert not [name for name, one in lock["packages"].items() if "resolved" in one]
    for name in SAME:
        assert (CLIENTS / WRITER / name).read_text() == (CLIENTS / READER / name).read_text(), name
    connections = [CLIENTS / WRITER / "src/producer", CLIENTS / READER / "src/consumer"]
    assert len({(one / "connection.js").read_text() for one in connections}) == 1
