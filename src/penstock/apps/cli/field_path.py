"""Paths into JSON values, in the syntax of jq: `.user.name`, `.items[0]`, `.items[].id`, `.["odd key"]`.

Only paths: no expressions, so a path can do nothing but select, and takes time in proportion to the value.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

STEPS_MAX = 64
GRAMMAR = '. for the whole value, .name, .["name"], [0], [-1] for the last one, [] for all; as in .items[].id'

_STEP = re.compile(
    r"""\.?\[(?P<number>-?[0-9]{1,9})\]"""
    r"""|\.?\[(?P<quoted>"(?:[^"\\]|\\.)*")\]"""
    r"""|\.(?P<dotted>"(?:[^"\\]|\\.)*")"""
    r"""|\.?(?P<all>\[\])"""
    r"""|\.(?P<name>[A-Za-z_][A-Za-z0-9_-]*)"""
)


class EveryElement(NamedTuple):
    """The step `[]`."""


Step = str | int | EveryElement


class FieldPath(NamedTuple):
    """A parsed path."""

    steps: tuple[Step, ...]

    @property
    def is_single(self) -> bool:
        """Whether it selects exactly one value."""
        return not any(isinstance(step, EveryElement) for step in self.steps)

    def select(self, value: Any) -> list[Any]:
        """The selected values; None for a field that a value does not have."""
        found = [value]
        for step in self.steps:
            found = [inner for one in found for inner in _inner(one, step)]
        return found


def parse_path(text: str) -> FieldPath:
    """Parse a path. Raises ValueError with the grammar."""
    word = text.strip()
    if word == ".":
        return FieldPath(())
    steps: list[Step] = []
    end = 0
    while end < len(word):
        match = _STEP.match(word, end)
        if match is None or len(steps) == STEPS_MAX or word[0] not in ".[":
            raise ValueError(f"{text!r} is not a path; allowed: {GRAMMAR}")
        end = match.end()
        steps.append(_step(match))
    if not steps:
        raise ValueError(f"{text!r} is not a path; allowed: {GRAMMAR}")
    return FieldPath(tuple(steps))


def _step(match: re.Match[str]) -> Step:
    if match["number"] is not None:
        return int(match["number"])
    if match["all"] is not None:
        return EveryElement()
    quoted = match["quoted"] or match["dotted"]
    name: str = json.loads(quoted) if quoted is not None else match["name"]
    return name


def _inner(value: Any, step: Step) -> list[Any]:
    if isinstance(step, EveryElement):
        if isinstance(value, dict):
            return list(value.values())
        return list(value) if isinstance(value, list) else []
    if isinstance(step, int):
        if not isinstance(value, list) or not -len(value) <= step < len(value):
            return [None]
        return [value[step]]
    return [value.get(step) if isinstance(value, dict) else None]
