"""What lies on a simulated disk: bytes and names, as programs see them and as a power loss leaves them.

Never fails by itself; the disk decides that.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

SECTOR_BYTES = 512


class Content:
    """The bytes of one file. Files grow or are cut, so all that is not durable yet lies behind `clean`."""

    def __init__(self) -> None:
        self.cache = bytearray()
        self.durable = bytearray()
        self.clean = 0
        """Position up to which cache and durable image are equal."""

    def dirty(self) -> bool:
        return self.clean < max(len(self.cache), len(self.durable))

    def append(self, data: bytes) -> None:
        self.cache += data

    def truncate(self, size: int) -> None:
        del self.cache[size:]
        self.clean = min(self.clean, size)

    def sync(self) -> int:
        """Make all durable; says how many bytes that took."""
        count = len(self.cache) - self.clean
        self.durable[self.clean :] = self.cache[self.clean :]
        self.clean = len(self.cache)
        return count

    def drop_unsynced(self) -> None:
        """A failed sync: the system forgets the pages, not the length; a later sync would bless the holes."""
        tail = self.durable[self.clean : len(self.cache)]
        self.cache[self.clean :] = tail.ljust(len(self.cache) - self.clean, b"\0")

    def flip(self, byte: int, bit: int) -> None:
        for image in (self.cache, self.durable):
            if byte < len(image):
                image[byte] ^= 1 << bit

    def crash(self, chance: random.Random) -> None:
        """Lose power: what was not synced is gone, there in part, torn by sectors, or there after all."""
        old, new = bytes(self.durable[self.clean :]), bytes(self.cache[self.clean :])
        fate = chance.randrange(4) if self.dirty() else 0
        if fate == 1:
            self.durable[self.clean :] = new[: chance.randint(0, len(new))]
        elif fate == 2:
            self.durable[self.clean :] = self._torn(chance, old, new)
        elif fate == 3:
            self.durable[self.clean :] = new
        self.cache = bytearray(self.durable)
        self.clean = len(self.cache)

    def _torn(self, chance: random.Random, old: bytes, new: bytes) -> bytes:
        shorter, longer = sorted((len(old), len(new)))
        length = chance.choice((len(old), len(new), chance.randint(shorter, longer)))
        images = {"old": old.ljust(length, b"\0"), "new": new.ljust(length, b"\0"), "zero": bytes(length)}
        torn = bytearray()
        while len(torn) < length:
            start = len(torn)
            end = min(length, start + SECTOR_BYTES - (self.clean + start) % SECTOR_BYTES)
            fate = chance.choice(("new", "new", "old", "zero", "garbage"))
            torn += chance.randbytes(end - start) if fate == "garbage" else images[fate][start:end]
        return bytes(torn)


class Directory:
    """Names and what they stand for, now and after a power loss."""

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node: TypeAlias = Content | Directory


class Change(NamedTuple):
    """One name in one directory that now stands for `node`, or for nothing."""

    directory: Directory
    name: str
    node: Node | None


class Tree:
    """All names, and the journal of changes to them that no sync has made durable yet."""

    def __init__(self) -> None:
        self.root = Directory()
        self._journal: list[tuple[Change, ...]] = []

    def find(self, path: str) -> Node | None:
        node: Node | None = self.root
        for part in parts_of(path):
            if not isinstance(node, Directory):
                return None
            node = node.entries.get(part)
        return node

    def contents(self) -> Iterator[Content]:
        """Every file there is, in a fixed order."""
        yield from _contents(self.root)

    def change(self, *changes: Change) -> None:
        """Do the changes as one: a crash keeps all of them or none."""
        for directory, name, node in changes:
            _put(directory.entries, name, node)
        self._journal.append(changes)

    def sync(self, directory: Directory) -> None:
        """Make the names of a directory durable, with all earlier changes that those rest on."""
        needed, kept, settled = {id(directory)}, [], []
        for changes in reversed(self._journal):
            touched = {id(change.directory) for change in changes}
            if touched & needed:
                needed |= touched
                settled.append(changes)
            else:
                kept.append(changes)
        for changes in reversed(settled):
            _settle(changes)
        self._journal = kept[::-1]

    def crash(self, chance: random.Random) -> None:
        """Lose power: of the changes to each directory some first ones are kept, the rest is undone."""
        keep_chance = chance.choice((0.0, 0.5, 0.9, 1.0))
        broken: set[int] = set()
        for changes in self._journal:
            touched = {id(change.directory) for change in changes}
            if touched & broken or chance.random() >= keep_chance:
                broken |= touched
            else:
                _settle(changes)
        self._journal.clear()
        _revert(self.root, chance)


def parts_of(path: str) -> list[str]:
    """The names along a relative path; the root has none."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    assert ".." not in parts and not path.startswith("/"), f"{path!r} leaves the tree"
    return parts


def _put(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _settle(changes: tuple[Change, ...]) -> None:
    for directory, name, node in changes:
        _put(directory.durable, name, node)


def _contents(directory: Directory) -> Iterator[Content]:
    for _, node in sorted(directory.entries.items()):
        if isinstance(node, Directory):
            yield from _contents(node)
        else:
            yield node


def _revert(directory: Directory, chance: random.Random) -> None:
    directory.entries = dict(directory.durable)
    for _, node in sorted(directory.entries.items()):
        if isinstance(node, Directory):
            _revert(node, chance)
        else:
            node.crash(chance)
