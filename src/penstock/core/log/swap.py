"""Replaces segments by their compacted versions; a crash at any point leaves either the old or the new ones.

The order makes it safe; each step is durable before the next begins:
  1. `<base>.log.cleaned` and `<base>.index.cleaned` are complete
  2. the first is renamed to `<base>-<next>.log.swap`: the commit point
  3. the old segments from base to next and all their indexes are removed, except the old `<base>.log`
  4. the swap file is renamed to `<base>.log`, then the index to `<base>.index`
After a crash `settle` undoes a swap that stopped before step 2 and finishes any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.core.log.segment import INDEX_SUFFIX, LOG_SUFFIX, name_of
from penstock.core.ports import Files

CLEANED_SUFFIX = ".cleaned"
_SWAP = re.compile(r"(\d{20})-(\d{20})\.log\.swap")
_LOG = re.compile(r"(\d{20})\.log")
_CLEANED = re.compile(r"(\d{20})\.(?:log|index)\.cleaned")


class Swap(NamedTuple):
    """One new segment and the offset range that it replaces."""

    base_offset: int
    next_offset: int

    @property
    def swap_name(self) -> str:
        return f"{self.base_offset:020d}-{self.next_offset:020d}.log.swap"


def commit(files: Files, directory: str, swaps: Sequence[Swap]) -> None:
    """The commit point: from here on the new segments win, even after a crash."""
    for one in swaps:
        cleaned = name_of(one.base_offset, LOG_SUFFIX + CLEANED_SUFFIX)
        files.rename(f"{directory}/{cleaned}", f"{directory}/{one.swap_name}")
    files.sync_dir(directory)


def finish(files: Files, directory: str, swaps: Sequence[Swap]) -> None:
    """Remove the old files and rename the new ones."""
    found = files.names(directory)
    bases = [int(match[1]) for match in map(_LOG.fullmatch, found) if match]
    for one in swaps:
        for base in bases:
            if one.base_offset <= base < one.next_offset:
                files.remove(f"{directory}/{name_of(base, INDEX_SUFFIX)}")
                # The rename below replaces this one atomically; removed first, a crash could leave no segment at all.
                if base != one.base_offset:
                    files.remove(f"{directory}/{name_of(base, LOG_SUFFIX)}")
    files.sync_dir(directory)
    for one in swaps:
        files.rename(f"{directory}/{one.swap_name}", f"{directory}/{name_of(one.base_offset, LOG_SUFFIX)}")
        _name_index(files, directory, one.base_offset)


def discard(files: Files, directory: str) -> None:
    """Remove the files of a rewrite that was not committed."""
    for name in files.names(directory):
        if _CLEANED.fullmatch(name):
            files.remove(f"{directory}/{name}")


def settle(files: Files, directory: str, report: Callable[[str], None]) -> None:
    """Finish or undo a swap that a crash interrupted. Costs one directory listing if there was none."""
    names = files.names(directory)
    swaps = [Swap(int(match[1]), int(match[2])) for match in map(_SWAP.fullmatch, names) if match]
    if swaps:
        finish(files, directory, swaps)
        files.sync_dir(directory)
        report(f"{directory}: finished an interrupted compaction, {len(swaps)} segments replaced")
    # An index without its `.log.cleaned` belongs to a swap whose data file was renamed before the crash.
    leftovers = [name for name in files.names(directory) if _CLEANED.fullmatch(name)]
    for name in leftovers:
        base = int(name[:20])
        if (
            name.endswith(INDEX_SUFFIX + CLEANED_SUFFIX)
            and name_of(base, LOG_SUFFIX + CLEANED_SUFFIX) not in leftovers
        ):
            _name_index(files, directory, base)
    discard(files, directory)


def _name_index(files: Files, directory: str, base_offset: int) -> None:
    """Rename the index into place, unless an older one exists: then its segment was never committed."""
    cleaned = f"{directory}/{name_of(base_offset, INDEX_SUFFIX + CLEANED_SUFFIX)}"
    target = f"{directory}/{name_of(base_offset, INDEX_SUFFIX)}"
    if files.exists(cleaned) and not files.exists(target):
        files.rename(cleaned, target)
