"""The page on gRPC and its example run against real services; its table of errors is that of the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpc_services import ServiceProcess, running_service
from pages import ROOT, RUN_S_MAX, blocks
from penstock.apps.gateways.errors import BY_CODE, TABLE
from penstock.testing import Broker, running_broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


@pytest.fixture(scope="module")
def services(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServiceProcess]]:
    home = tmp_path_factory.mktemp("services")
    flags = ("--bootstrap", broker.bootstrap)
    with (
        running_service(home, "producer-service", *flags) as producing,
        running_service(home, "consumer-service", *flags) as consuming,
    ):
        yield [producing, consuming]


def run(services: list[ServiceProcess], *words: str) -> str:
    addresses = {"PENSTOCK_PRODUCER": services[0].address, "PENSTOCK_CONSUMER": services[1].address}
    ran = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **addresses},
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_the_block_runs(services: list[ServiceProcess], tmp_path: Path) -> None:
    (block,) = blocks("docs/grpc.md")
    for port, service in zip(("9193", "9194"), services, strict=True):
        assert block.count(f"127.0.0.1:{port}") == 1
        block = block.replace(f"127.0.0.1:{port}", service.address)
    script = tmp_path / "block.py"
    script.write_text(block)
    assert run(services, str(script)) == "0 0\n[b'login']\n"


def test_the_example_runs(services: list[ServiceProcess]) -> None:
    ran = run(services, str(ROOT / "examples" / "grpc_orders.py"), "25")
    assert ran == "25 orders written\n25 orders read\n"


def test_every_status_and_reason_is_in_the_page() -> None:
    page = (ROOT / "docs" / "grpc.md").read_text("utf-8")
    table = page[page.index("## Errors") :]
    rows = {row.split("|")[1].strip(" `"): row for row in table.splitlines() if row.startswith("| `")}
    for found in (*TABLE.values(), *BY_CODE.values()):
        assert f"`{found.reason}`" in rows[found.code.name], found
    known = {found.reason for found in (*TABLE.values(), *BY_CODE.values())}
    named = {reason for row in rows.values() for reason in re.findall(r"`([A-Z_]+)`", row.split("|")[2])}
    assert named <= known
