"""A builder of Python source: indentation and unique names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class SourceText:
    """The lines of one function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.names = 0

    def emit(self, line: str) -> None:
        """Add a line at the current depth."""
        self.lines.append("    " * self.depth + line)

    @contextmanager
    def block(self, line: str) -> Iterator[None]:
        """Add a line and indent what follows."""
        self.emit(line)
        self.depth += 1
        yield
        self.depth -= 1

    def name(self, letter: str) -> str:
        """A unique name."""
        self.names += 1
        return f"{letter}{self.names}"

    def pause(self, elements: int, units: int) -> None:
        """Count one element and periodically yield their cost."""
        self.emit("turn -= 1")
        self.emit(f"if not turn: turn = {elements}; yield {units}")
