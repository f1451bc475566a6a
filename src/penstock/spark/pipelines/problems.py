"""Collects the errors of a definition, so that all of them are reported together. Never prints them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.spark.errors import ProjectProblem, WrongDefinition


@dataclass
class Problems:
    """The problems found so far. Checks continue after a problem."""

    found: list[ProjectProblem] = field(default_factory=list)

    def add(self, path: str, what: str, remedy: str = "") -> None:
        self.found.append(ProjectProblem(path, what, remedy))

    def unknown(self, path: str, word: str, known: Iterable[str], thing: str) -> None:
        """Report an unknown word and suggest the closest known one."""
        self.add(path, f"unknown {thing} {word!r}.", suggestion(word, known))

    def raise_any(self) -> None:
        if self.found:
            raise WrongDefinition(self.found)


def suggestion(word: str, known: Iterable[str]) -> str:
    """`Did you mean 'topics'?`, or the full list if nothing is similar."""
    listed = sorted(known)
    near = difflib.get_close_matches(word, listed, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(listed)}."
