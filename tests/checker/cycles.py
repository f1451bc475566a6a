"""Circular flow of information: who read or followed whom, who came before whom in time. Never builds the whole graph.

Put all operations into one line, by completion (by invocation if they never completed). A cycle must step back in that
line somewhere, and the spans that the backward edges bridge cover it without a gap. So only operations inside such
spans are looked at, each group of overlapping spans by itself: a right history has few and short ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise

from checker import findings as kinds
from checker.findings import Findings
from checker.history import Op
from checker.versions import Versions

WW, WR, PROCESS, REALTIME = "ww", "wr", "process", "realtime"
LAYERS = (
    (kinds.G0, frozenset((WW,))),
    (kinds.G1C, frozenset((WW, WR))),
    (kinds.G0 + kinds.PROCESS, frozenset((WW, PROCESS))),
    (kinds.G1C + kinds.PROCESS, frozenset((WW, WR, PROCESS))),
    (kinds.G0 + kinds.REALTIME, frozenset((WW, PROCESS, REALTIME))),
    (kinds.G1C + kinds.REALTIME, frozenset((WW, WR, PROCESS, REALTIME))),
)

Edge = tuple[int, int, str]
"""From and to, as places in the line, and the kind."""


def find_cycles(versions: Versions, found: Findings, *, ww_edges: bool) -> None:
    line = sorted(
        (op for op in versions.ops if versions.must_have_committed(op)),
        key=lambda op: op.invoked if op.completed is None else op.completed,
    )
    place = {op: index for index, op in enumerate(line)}
    edges = list(_wr_edges(versions, place))
    if ww_edges:
        edges += _ww_edges(versions, place)
    spans = _spans(edges)
    for (low, high), inside in zip(spans, _edges_inside(edges, spans), strict=True):
        inside += _process_edges(line, low, high)
        inside += _realtime_edges(line, low, high)
        _classify(line, inside, found)


def _wr_edges(versions: Versions, place: dict[Op, int]) -> Iterator[Edge]:
    for op in versions.ops:
        reader = place.get(op)
        if reader is None:
            continue
        before: Op | None = None
        for key, pairs in op.polls.items():
            writers = versions.writer.get(key, {})
            for _, value in pairs:
                writer = writers.get(value)
                if writer is before or writer is None:
                    continue
                before = writer
                source = place.get(writer)
                if source is not None and source != reader:
                    yield source, reader, WR


def _ww_edges(versions: Versions, place: dict[Op, int]) -> list[Edge]:
    """From the writer of each version to that of the next, where both are known to be done."""
    edges: list[Edge] = []
    for key, log in sorted(versions.keys.items()):
        writers = versions.writer.get(key, {})
        row = [place.get(writers[value]) if value in writers else None for value in log.order]
        for one, next_one in pairwise(row):
            if one is not None and next_one is not None and one != next_one:
                edges.append((one, next_one, WW))
    return edges


def _spans(edges: Iterable[Edge]) -> list[tuple[int, int]]:
    """Where edges lead backwards, with what overlaps joined."""
    backward = sorted((target, source) for source, target, _ in edges if target < source)
    joined: list[tuple[int, int]] = []
    for low, high in backward:
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    return joined


def _edges_inside(edges: Iterable[Edge], spans: list[tuple[int, int]]) -> list[list[Edge]]:
    """For each span the edges that begin and end in it."""
    lows = [low for low, _ in spans]
    inside: list[list[Edge]] = [[] for _ in spans]
    for edge in edges:
        place = bisect_right(lows, edge[0]) - 1
        if place >= 0 and edge[0] <= spans[place][1] and lows[place] <= edge[1] <= spans[place][1]:
            inside[place].append(edge)
    return inside


def _process_edges(line: list[Op], low: int, high: int) -> Iterator[Edge]:
    newest: dict[int, int] = {}
    for index in sorted(range(low, high + 1), key=lambda index: line[index].invoked):
        process = line[index].process
        if process in newest:
            yield newest[process], index, PROCESS
        newest[process] = index


def _realtime_edges(line: list[Op], low: int, high: int) -> Iterator[Edge]:
    """From each operation to those that began after its end; what follows from two others is left out."""
    moments: list[tuple[int, bool, int]] = []
    for index in range(low, high + 1):
        op = line[index]
        moments.append((op.invoked, False, index))
        if op.completed is not None:
            moments.append((op.completed, True, index))
    frontier: set[int] = set()
    behind: dict[int, set[int]] = {}
    for _, is_completion, index in sorted(moments):
        if is_completion:
            frontier = (frontier - behind[index]) | {index}
        else:
            behind[index] = set(frontier)
            for earlier in sorted(frontier):
                yield earlier, index, REALTIME


def _classify(line: list[Op], edges: list[Edge], found: Findings) -> None:
    """Each knot is named by the smallest set of edge kinds that ties it."""
    if not strongly_connected(_successors(edges)):
        return
    named: set[int] = set()
    for name, allowed in LAYERS:
        layer = [edge for edge in edges if edge[2] in allowed]
        for knot in strongly_connected(_successors(layer)):
            members = set(knot)
            if members & named:
                continue
            wanted = WR if name.startswith(kinds.G1C) else WW
            tied = [e for e in layer if e[2] == wanted and e[0] in members and e[1] in members]
            if tied:
                named |= members
                found.add(name, _words(line, _shortest(tied[0], layer, members)))


def _successors(edges: Iterable[Edge]) -> dict[int, list[int]]:
    follow: dict[int, list[int]] = {}
    for source, target, _ in edges:
        follow.setdefault(source, []).append(target)
    return follow


def strongly_connected(follow: dict[int, list[int]]) -> list[list[int]]:
    """Tarjan's components of more than one node, without recursion."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in sorted(follow):
        if root in number:
            continue
        work: list[tuple[int, Iterator[int]]] = [(root, iter(follow[root]))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    found += _popped(node, stack, on_stack)
            elif target not in number:
                number[target] = low[target] = len(number)
                stack.append(target)
                on_stack.add(target)
                work.append((target, iter(follow.get(target, ()))))
            elif target in on_stack:
                low[node] = min(low[node], number[target])
    return found


def _popped(node: int, stack: list[int], on_stack: set[int]) -> list[list[int]]:
    component: list[int] = []
    while not component or component[-1] != node:
        component.append(stack.pop())
        on_stack.discard(component[-1])
    return [sorted(component)] if len(component) > 1 else []


def _shortest(start: Edge, layer: list[Edge], members: set[int]) -> list[Edge]:
    """The shortest cycle through one edge."""
    follow: dict[int, list[Edge]] = {}
    for edge in layer:
        if edge[0] in members and edge[1] in members:
            follow.setdefault(edge[0], []).append(edge)
    came_by: dict[int, Edge] = {start[1]: start}
    queue = deque([start[1]])
    while start[0] not in came_by:
        node = queue.popleft()
        for edge in follow.get(node, ()):
            if edge[1] not in came_by:
                came_by[edge[1]] = edge
                queue.append(edge[1])
    path = [came_by[start[0]]]
    while path[-1] != start:
        path.append(came_by[path[-1][0]])
    return path[::-1]


def _words(line: list[Op], cycle: list[Edge]) -> str:
    steps = [f"{line[source]} –{kind}→" for source, _, kind in cycle]
    return " ".join([*steps, str(line[cycle[0][0]])])
