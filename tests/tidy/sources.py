"""The tree as the walls see it: files with their text and syntax. Never imports what it looks at."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "penstock"


@dataclass(frozen=True)
class Source:
    """One Python file. `path` is relative to the root of the tree."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def module(self) -> str:
        """`src/penstock/core/model.py` → `penstock.core.model`; empty for files outside of the package."""
        parts = Path(self.path).with_suffix("").parts
        if parts[:2] != ("src", PACKAGE):
            return ""
        return ".".join(parts[1:]).removesuffix(".__init__")

    def lines(self) -> list[str]:
        return self.text.splitlines()


def tracked_files() -> list[str]:
    """Every file under version control or about to be; what is ignored is nobody's business here."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return sorted(name for name in listed.split("\0") if name and (ROOT / name).is_file())


def python_sources() -> list[Source]:
    return [
        Source(name, (ROOT / name).read_text("utf-8")) for name in tracked_files() if name.endswith(".py")
    ]


def text_files() -> list[Source]:
    """Every tracked file that is text, Python or not."""
    found = []
    for name in tracked_files():
        content = (ROOT / name).read_bytes()
        if b"\0" not in content:
            found.append(Source(name, content.decode("utf-8", "replace")))
    return found


def imported(source: Source, known: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Line and full module name of every import, also those inside functions. `known` are our own modules."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(source, node)
            submodules = [f"{origin}.{alias.name}" for alias in node.names]
            inside = [name for name in submodules if name in known]
            for name in inside:
                yield node.lineno, name
            if len(inside) < len(submodules):
                yield node.lineno, origin


def _origin(source: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = source.module.split(".")
    if not source.path.endswith("__init__.py"):
        package = package[:-1]
    base = package[: len(package) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)
