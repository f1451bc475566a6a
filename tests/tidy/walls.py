"""The walls of the house as functions from sources to breaches. Never decides what to do about one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from tidy.sources import PACKAGE, Source, imported

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 50

BELOW = {
    "core": (),
    "wire": ("core",),
    "node": ("wire", "core"),
    "doors": ("node", "wire", "core"),
    "client": ("wire", "core"),
    "spark": ("client", "wire", "core.records", "core.codecs"),
    "v1": (),
    "apps": ("doors", "client", "node", "wire", "core", "spark", "v1"),
}
"""Which rooms a room may import besides itself."""

GENERATED = re.compile(r"^src/penstock/v1/\w+_pb2(?:_grpc)?\.py$")
"""Written by `make proto`: names are those of the protocol."""

APART = (("core.log", "core.machines"),)
"""Neighbours that never import each other. Two doors are always apart."""

DOORS_SEE = (
    "core",
    "wire",
    "doors",
    "node.connections",
    "node.metrics.exposition",
    "node.runtime.meters",
    "node.runtime.slices",
    "node.runtime.tasks",
    "node.waist",
)
"""What a door may import: the waist with its value types, the ground that doors stand on, and of the core values."""

DOORS_NEVER_SEE = ("core.log", "core.machines")

_OPEN_ATTRIBUTES = frozenset({"_asdict", "_fields", "_replace"})
"""The public methods of a NamedTuple."""

SOLE_CALLERS = {"decide_create_topic": "src/penstock/node/topic_creation.py"}
"""What is written once: the one file of the package that calls it."""

IMPURE = {
    "core": {"asyncio", "socket", "os", "time", "random", "threading", "logging"},
    "wire": {"asyncio", "socket", "os", "time", "random", "threading", "logging", "selectors", "ssl"},
}
"""Modules of the standard library that a room never touches."""

VERBS = frozenset({"encode", "decode", "main"})
"""Functions that carry the same name in every codec, and where every program starts."""

_FORMS = re.compile(r"_(?:loops|compiled)$")
"""One module in two forms: the plain one, and the one for a C compiler."""

_UNIT = PurePosixPath("tests/unit")

_Function = ast.FunctionDef | ast.AsyncFunctionDef

_VAGUE = re.compile(r"(^|_)(utils?|commons?|helpers?|misc|managers?)($|_)")
_VAGUE_CLASS = re.compile(r"Util|Common|Helper|Manager|Misc|^Base[A-Z]|Base$|Impl$")
_WAIVER = re.compile(r"#\s*waiver:\s*\S+")
_UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
_ELSEWHERE = re.compile(
    r"(?<![\w.])/(?:work|root|home)/\w"
    r"|https://[^\s\"']*(?:registry|packages?|mirror|repo\d?|pypi|pythonhosted|npm|maven)[^\s\"']*"
    r"|\b(?:artifactory|nexus)\b|--(?:extra-)?index-url",
    re.IGNORECASE,
)


def layer_breaches(sources: Iterable[Source]) -> list[str]:
    """Imports that point up, sideways between doors, or between neighbours that are apart."""
    listed = [source for source in sources if source.module]
    known = frozenset(source.module for source in listed)
    found = []
    for source in listed:
        for line, name in imported(source, known):
            if name.startswith(f"{PACKAGE}.") and not _may_import(_room(source.module), _room(name)):
                found.append(f"{source.path}:{line}: {source.module} imports {name}")
    return found


def _room(module: str) -> str:
    """`penstock.core.log.segment` → `core.log.segment`; the package itself is no room."""
    return module.removeprefix(PACKAGE).removeprefix(".")


def _may_import(importer: str, target: str) -> bool:
    if not target or not importer or importer == "__main__":
        return True
    top, target_top = importer.split(".")[0], target.split(".")[0]
    for left, right in APART:
        if (_within(importer, left) and _within(target, right)) or (
            _within(importer, right) and _within(target, left)
        ):
            return False
    if top == target_top:
        same_door = importer.split(".")[:2] == target.split(".")[:2]
        return top != "doors" or same_door or target == "doors"
    return any(_within(target, room) for room in BELOW.get(top, ()))


def waist_breaches(sources: Iterable[Source]) -> list[str]:
    """Doors that import more of the node than the waist, or reach into what is private to another object."""
    listed = [source for source in sources if source.module]
    known = frozenset(source.module for source in listed)
    found = []
    for source in listed:
        if not _within(_room(source.module), "doors"):
            continue
        for line, name in imported(source, known):
            room = _room(name)
            if name.startswith(f"{PACKAGE}.") and not _is_seen_by_doors(room):
                found.append(f"{source.path}:{line}: {source.module} imports {name}")
        found += [f"{source.path}:{line}: reaches into .{name}" for line, name in _private_reaches(source)]
    return found


def _is_seen_by_doors(room: str) -> bool:
    return any(_within(room, one) for one in DOORS_SEE) and not any(
        _within(room, one) for one in DOORS_NEVER_SEE
    )


def _private_reaches(source: Source) -> Iterator[tuple[int, str]]:
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
            continue
        is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        if not is_own and node.attr not in _OPEN_ATTRIBUTES:
            yield node.lineno, node.attr


def verbs_without_session(sources: Iterable[Source]) -> list[str]:
    """Verbs of the waist that are not told who calls. What ends all calls, for no caller, is called release_*."""
    found = []
    for source in sources:
        if not _within(_room(source.module), "node.waist"):
            continue
        for verbs in ast.walk(source.tree):
            if isinstance(verbs, ast.ClassDef) and verbs.name.endswith("Verbs"):
                found += [
                    f"{source.path}:{one.lineno}: {verbs.name}.{one.name}" for one in _sessionless(verbs)
                ]
    return found


def _sessionless(verbs: ast.ClassDef) -> Iterator[_Function]:
    for node in verbs.body:
        if not isinstance(node, _Function) or node.name.startswith(("_", "release_")):
            continue
        is_property = any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)
        names = [one.arg for one in node.args.args]
        if not is_property and names[1:2] != ["session"]:
            yield node


def second_callers(sources: Iterable[Source]) -> list[str]:
    """Calls of what is written once from a place that is not the one."""
    return [
        f"{source.path}:{node.lineno}: calls {node.func.attr}"
        for source in sources
        if source.module
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and source.path != SOLE_CALLERS.get(node.func.attr, source.path)
    ]


def _within(module: str, room: str) -> bool:
    return module == room or module.startswith(room + ".")


def impurities(sources: Iterable[Source]) -> list[str]:
    """Imports of the world outside in rooms that must not know it."""
    found = []
    for source in sources:
        banned = IMPURE.get(_room(source.module).split(".")[0], set())
        for line, name in imported(source, frozenset()):
            if name.split(".")[0] in banned:
                found.append(f"{source.path}:{line}: imports {name}")
    return found


def cycles(sources: Iterable[Source]) -> list[str]:
    """Rings of imports, each written once. Imports inside functions count: a hidden ring is a ring."""
    listed = [source for source in sources if source.module]
    known = frozenset(source.module for source in listed)
    graph = {
        source.module: {name for _, name in imported(source, known) if name in known} - {source.module}
        for source in listed
    }
    return _loops(graph)


def root_imports(sources: Iterable[Source]) -> list[str]:
    """Imports of the root package inside the package: its names are for users, and load more than is needed."""
    listed = [source for source in sources if source.module]
    known = frozenset(source.module for source in listed)
    return [
        f"{source.path}:{line}: imports {PACKAGE}"
        for source in listed
        for line, name in imported(source, known)
        if name == PACKAGE
    ]


def folder_cycles(sources: Iterable[Source]) -> list[str]:
    """Folders that import each other: each pair, then each loop that is longer. A lazy or typing import counts.

    Loops are looked for without the edges of pairs, so that every cycle is reported once and by its shortest form.
    """
    graph = _folder_graph(sources)
    pairs = {(left, right) for left in graph for right in graph[left] if left in graph[right]}
    rest = {
        folder: {target for target in targets if (folder, target) not in pairs}
        for folder, targets in graph.items()
    }
    return [f"{left} ↔ {right}" for left, right in sorted(pairs) if left < right] + _loops(rest)


def _folder_graph(sources: Iterable[Source]) -> dict[str, set[str]]:
    """Which other folders of the package the modules of each folder import."""
    listed = [source for source in sources if source.module]
    packages = {source.module for source in listed if source.path.endswith("__init__.py")}
    known = frozenset(source.module for source in listed)

    def folder(module: str) -> str:
        return module if module in packages else module.rpartition(".")[0]

    graph: dict[str, set[str]] = {folder(module): set() for module in known}
    for source in listed:
        own = folder(source.module)
        targets = {folder(name) for _, name in imported(source, known) if name in known}
        graph[own] |= targets - {own}
    return graph


def _loops(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """The loops that a depth-first walk closes, in a stable order; none exactly if the graph has none."""
    found: list[str] = []
    state: dict[str, int] = {}

    def visit(node: str, trail: list[str]) -> None:
        state[node] = 1
        for target in sorted(graph[node]):
            if state.get(target) == 1:
                found.append(" → ".join([*trail[trail.index(target) :], target]))
            elif target not in state:
                visit(target, [*trail, target])
        state[node] = 2

    for node in sorted(graph):
        if node not in state:
            visit(node, [node])
    return found


def long_files(sources: Iterable[Source]) -> list[str]:
    return [
        f"{source.path}: {len(source.lines())} lines, at most {FILE_LINES_MAX}"
        for source in sources
        if len(source.lines()) > FILE_LINES_MAX
    ]


def long_functions(sources: Iterable[Source]) -> list[str]:
    """Functions over the limit without a waiver, counted from `def` to their last line."""
    return [
        f"{source.path}:{node.lineno}: {node.name} has {_length(node)} lines, at most {FUNCTION_LINES_MAX}"
        for source, node in _functions(sources)
        if _length(node) > FUNCTION_LINES_MAX and not _is_waived(source, node)
    ]


def waivers(sources: Iterable[Source]) -> list[str]:
    """Functions over the limit that give a reason on their first line."""
    return [f"{s.path}:{n.lineno}: {n.name}" for s, n in _functions(sources) if _is_waived(s, n)]


def _functions(sources: Iterable[Source]) -> Iterator[tuple[Source, _Function]]:
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, _Function):
                yield source, node


def _length(node: _Function) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def _is_waived(source: Source, node: _Function) -> bool:
    return _WAIVER.search(source.lines()[node.lineno - 1]) is not None


def unsigned_rooms(sources: Iterable[Source]) -> list[str]:
    """Modules that do not say on their first line what they are."""
    found = []
    for source in sources:
        docstring = ast.get_docstring(source.tree)
        if source.text.strip() and not (docstring and docstring.splitlines()[0].strip()):
            found.append(source.path)
    return found


def strayed_tests(sources: Iterable[Source]) -> list[str]:
    """Unit tests outside the mirrored folder: not named after a module there, and importing none of its modules.

    `test_partition_flush.py` is named after `partition`: one module may have several files of tests.
    """
    listed = list(sources)
    modules = frozenset(source.module for source in listed if source.module)
    found = []
    for source in listed:
        path = PurePosixPath(source.path)
        if not path.is_relative_to(_UNIT) or not path.name.startswith("test_"):
            continue
        room = ".".join((PACKAGE, *path.relative_to(_UNIT).parent.parts))
        words = path.stem.split("_")[1:]
        names = {f"{room}.{'_'.join(words[:count])}" for count in range(1, len(words) + 1)}
        if not names & modules and not any(_within(name, room) for _, name in imported(source, modules)):
            found.append(f"{source.path}: tests nothing of {room}")
    return found


def vague_names(sources: Iterable[Source]) -> list[str]:
    """Modules, classes and functions whose name says nothing."""
    found = []
    for source in sources:
        if any(_VAGUE.search(part) for part in PurePosixPath(source.path).with_suffix("").parts):
            found.append(source.path)
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef) and _VAGUE_CLASS.search(node.name):
                found.append(f"{source.path}:{node.lineno}: class {node.name}")
            elif isinstance(node, _Function) and _VAGUE.search(node.name):
                found.append(f"{source.path}:{node.lineno}: def {node.name}")
    return found


def second_definitions(sources: Iterable[Source]) -> dict[str, list[str]]:
    """Public classes and functions whose name is defined in more than one module, with those modules.

    Methods do not count, and neither do commands of the command line: their names are what users type.
    """
    found: dict[str, set[str]] = {}
    for source in sources:
        if source.module and not GENERATED.match(source.path):
            room = _room(_FORMS.sub("", source.module))
            for name in _public_names(source.tree):
                found.setdefault(name, set()).add(room)
    return {name: sorted(modules) for name, modules in sorted(found.items()) if len(modules) > 1}


def _public_names(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        is_defined = isinstance(node, ast.ClassDef) or (isinstance(node, _Function) and not _is_command(node))
        if is_defined and not node.name.startswith("_") and node.name not in VERBS:
            yield node.name


def _is_command(node: _Function) -> bool:
    calls = [one.func for one in node.decorator_list if isinstance(one, ast.Call)]
    return any(isinstance(call, ast.Attribute) and call.attr in ("command", "group") for call in calls)


def unfinished(files: Iterable[Source]) -> list[str]:
    """Notes to self."""
    return _matching(files, _UNFINISHED)


def places_elsewhere(files: Iterable[Source]) -> list[str]:
    """Paths of one machine and hosts that packages come from: neither belongs into the tree."""
    return _matching(files, _ELSEWHERE)


def _matching(files: Iterable[Source], pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{file.path}:{number}: {line.strip()[:100]}"
        for file in files
        for number, line in enumerate(file.lines(), 1)
        if pattern.search(line)
    ]
