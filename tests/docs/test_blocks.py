"""Every Python block of the pages for users runs as it stands, against a real broker, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import Broker, running_broker

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/clients.md", "docs/queue.md", "docs/testing.md")
RUN_S_MAX = 120
TESTS = "def test_"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    return _BLOCK.findall((ROOT / page).read_text("utf-8"))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


def run(broker: Broker, *words: str) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "PENSTOCK_BOOTSTRAP": broker.bootstrap,
        "PENSTOCK_QUEUE": f"{broker.host}:{broker.queue_port}",
    }
    ran = subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=RUN_S_MAX
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run(broker: Broker, page: str, tmp_path: Path) -> None:
    """One process for a page, one namespace for each block."""
    plain = [block for block in blocks(page) if TESTS not in block]
    assert plain
    script = tmp_path / "page.py"
    script.write_text(
        "".join(f"exec(compile({block!r}, 'block {n}', 'exec'), {{}})\n" for n, block in enumerate(plain))
    )
    run(broker, str(script))


@pytest.mark.parametrize("page", ["README.md", "docs/testing.md"])
def test_tests_run(broker: Broker, page: str, tmp_path: Path) -> None:
    """Blocks that are tests run as such, with the plugin and without others that happen to be installed."""
    (found,) = [block for block in blocks(page) if TESTS in block]
    script = tmp_path / "test_block.py"
    script.write_text(found)
    plugins = (
        "no:penstock",
        "penstock.testing.fixtures",
        "no:schemathesis",
        "no:hypothesispytest",
        "no:anyio",
        "no:xdist",
        "no:cacheprovider",
    )
    run(broker, "-m", "pytest", *(word for name in plugins for word in ("-p", name)), str(script))


def test_every_option_of_the_page_is_one() -> None:
    page = (ROOT / "docs" / "client-options.md").read_text("utf-8")
    used = set(re.findall(r"(\w+)=", "".join(blocks("docs/clients.md"))))
    calls = {"key", "headers", "partitions", "configs", "if_not_exists", "records_max", "wait_s"}
    assert [name for name in sorted(used - calls) if f"| `{name}` |" not in page] == []
