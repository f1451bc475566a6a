"""What a history says about each key: who wrote what, who read it, the order of versions. Never names an anomaly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from checker.history import FAIL, INFO, OK, Op, data_operations


@dataclass(slots=True)
class KeyVersions:
    """One key's log, as far as anybody saw it. Offsets without a known record are left out: indexes are dense."""

    by_offset: dict[int, int] = field(default_factory=dict)
    conflicts: dict[int, set[int]] = field(default_factory=dict)
    """Offsets that hold more than one value, with all of them."""
    order: list[int] = field(default_factory=list)
    first: dict[int, int] = field(default_factory=dict)
    """The smallest index of each value."""
    last: dict[int, int] = field(default_factory=dict)

    def add(self, offset: int, value: int) -> None:
        known = self.by_offset.setdefault(offset, value)
        if known != value:
            self.conflicts.setdefault(offset, {known}).add(value)

    def close(self) -> None:
        for index, offset in enumerate(sorted(self.by_offset)):
            self.order.append(self.by_offset[offset])
            for value in self.conflicts.get(offset) or (self.by_offset[offset],):
                self.first.setdefault(value, index)
                self.last[value] = index

    def offsets_of(self, values: set[int]) -> dict[int, list[int]]:
        """Every offset at which one of these values was seen."""
        found: dict[int, list[int]] = {value: [] for value in values}
        for offset in sorted(self.by_offset):
            for value in self.conflicts.get(offset) or (self.by_offset[offset],):
                if value in found:
                    found[value].append(offset)
        return found


class Versions:
    """Writers, readers and version orders of a whole history."""

    def __init__(self, ops: Iterable[Op]) -> None:
        self.ops = list(data_operations(ops))
        self.writer: dict[int, dict[int, Op]] = {}
        self.written_ok: dict[int, set[int]] = {}
        self.read_ok: dict[int, set[int]] = {}
        self.read_by_any: dict[int, set[int]] = {}
        self.keys: dict[int, KeyVersions] = {}
        self._collect()
        self._order()

    def _collect(self) -> None:
        for op in self.ops:
            for key, _, value in op.sends:
                self.writer.setdefault(key, {})[value] = op
                if op.type == OK:
                    self.written_ok.setdefault(key, set()).add(value)
            for key, pairs in op.polls.items():
                values = [pair[1] for pair in pairs]
                self.read_by_any.setdefault(key, set()).update(values)
                if op.type == OK:
                    self.read_ok.setdefault(key, set()).update(values)

    def _order(self) -> None:
        for op in self.ops:
            if op.sends and self.must_have_committed(op):
                for key, offset, value in op.sends:
                    if offset is not None:
                        self.of(key).add(offset, value)
            for key, pairs in op.polls.items():
                add = self.of(key).add
                for offset, value in pairs:
                    add(offset, value)
        for versions in self.keys.values():
            versions.close()

    def of(self, key: int) -> KeyVersions:
        found = self.keys.get(key)
        if found is None:
            found = self.keys[key] = KeyVersions()
        return found

    def must_have_committed(self, op: Op) -> bool:
        """Done for certain: it said so, or somebody read what only it can have written."""
        if op.type == INFO:
            nothing: set[int] = set()
            return any(value in self.read_ok.get(key, nothing) for key, _, value in op.sends)
        return op.type == OK

    def failed_writer(self, key: int, value: int) -> Op | None:
        writer = self.writer.get(key, {}).get(value)
        return writer if writer is not None and writer.type == FAIL else None
