"""Maps the keys of a YAML definition to line numbers. Never validates a value.

Keys are the paths of problems: `pipelines.orders.steps[0].sql`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import yaml

from penstock.spark.errors import ProjectProblem, WrongDefinition

DEPTH_MAX = 50
"""Deeper than any definition; a recursive alias must not recurse forever."""
_MERGE = "<<"


@dataclass(frozen=True)
class Locations:
    """The file of a project, and the line of each path in it. Without a file, problems have only a path."""

    file: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)

    def located(self, problems: Iterable[ProjectProblem]) -> WrongDefinition:
        """The error to raise for these problems."""
        return WrongDefinition([self.place(one) for one in problems])

    def place(self, problem: ProjectProblem) -> ProjectProblem:
        return replace(problem, file=self.file, line=self._line_of(problem.path))

    def _line_of(self, path: str) -> int | None:
        """The line of a path, or of the mapping that lacks the key."""
        while path not in self.lines and path:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path)


def read_lines(text: str) -> tuple[dict[str, int], list[ProjectProblem]]:
    """Lines by path, and duplicate keys, of which YAML silently uses the last. Raises YAMLError."""
    lines: dict[str, int] = {}
    twice: list[ProjectProblem] = []
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    for path, node, is_repeated in _walk(root, "", 0):
        if is_repeated:
            first = lines.get(path)
            twice.append(
                ProjectProblem(
                    path, f"is a duplicate key, first defined in line {first}.", "Rename or remove one."
                )
            )
        lines.setdefault(path, node.start_mark.line + 1)
    return lines, twice


def _walk(node: yaml.Node | None, path: str, depth: int) -> Iterator[tuple[str, yaml.Node, bool]]:
    """Every key and list item below a node, and whether it is a duplicate."""
    if depth > DEPTH_MAX:
        return
    if isinstance(node, yaml.SequenceNode):
        for index, one in enumerate(node.value):
            yield f"{path}[{index}]", one, False
            yield from _walk(one, f"{path}[{index}]", depth + 1)
    elif isinstance(node, yaml.MappingNode):
        yield from _walk_mapping(node, path, depth)


def _walk_mapping(node: yaml.MappingNode, path: str, depth: int) -> Iterator[tuple[str, yaml.Node, bool]]:
    seen: set[str] = set()
    merged: list[yaml.Node] = []
    for key, value in node.value:
        name = str(key.value)
        if name == _MERGE:
            merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
            continue
        inside = f"{path}.{name}" if path else name
        yield inside, key, name in seen
        seen.add(name)
        yield from _walk(value, inside, depth + 1)
    for one in merged:
        yield from _walk(one, path, depth + 1)
