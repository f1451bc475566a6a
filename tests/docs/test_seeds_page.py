"""docs/seeds.md: every row has a test that exists, or a reason; and what it says about files is true."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "seeds.md").read_text("utf-8")
_REFERENCE = re.compile(r"`([\w/.]+\.py)::(\w+)`")


def rows() -> list[list[str]]:
    """The cells of every row."""
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in PAGE.splitlines()
        if line.startswith("| ") and not line.startswith("| the seed says")
    ]


@cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize("cells", rows(), ids=lambda one: one[0][:40])
def test_a_row_has_a_test_or_a_reason(cells: list[str]) -> None:
    assert len(cells) == 3 and all(cells), cells
    shown = cells[2]
    if shown.startswith("reason: "):
        return
    references = _REFERENCE.findall(shown)
    assert references and not _REFERENCE.sub("", shown).strip(" ,"), shown
    for path, name in references:
        file = ROOT / "tests" / path
        assert file.exists(), path
        assert name in names_in(file), f"{path}::{name}"


def test_every_seed_is_there() -> None:
    assert re.findall(r"^## Seed (\d+)", PAGE, flags=re.MULTILINE) == ["000", "001", "002", "003", "004"]
    assert len(rows()) > 100


def test_targets_of_the_seed_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert {"build", "run", "test", "clean", "proto"} <= targets
    assert (ROOT / "tools" / "build").stat().st_mode & 0o111


def test_directories_exist() -> None:
    for name in ("tests/e2e", "bench", "docs/protocols", "docs/operations.md", "ARCHITECTURE.md", "examples"):
        assert (ROOT / name).exists(), name


def test_data_directories_are_not_committed() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {"data/", "penstock-data/"} <= set(ignored)


def test_the_diagram_names_every_door() -> None:
    diagram = (ROOT / "docs" / "architecture.svg").read_text("utf-8")
    for word in ("Kafka", "text", "JSON", "queue", "HTTP", "gRPC", "Spark", "9092", "9999", "9080", "etcd"):
        assert word in diagram, word
    assert "docs/architecture.svg" in (ROOT / "README.md").read_text("utf-8")
    assert "prefers-color-scheme: dark" in diagram
