"""The start offset of each leader epoch. Where the file is behind, recovery rebuilds it from the batches."""

from __future__ import annotations

from bisect import bisect_right

from penstock.core.log import checksummed_file
from penstock.core.model import NO_EPOCH
from penstock.core.ports import Files

FILE_NAME = "leader-epochs"


class Epochs:
    """Ascending (epoch, start offset) pairs."""

    __slots__ = ("_epochs", "_files", "_path", "_starts", "is_behind")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{FILE_NAME}"
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.is_behind = False
        """Whether the file is out of date."""

    def load(self) -> bool:
        """Read the file; False if there is none. Raises TornSegment if it is damaged."""
        content = checksummed_file.read(self._files, self._path)
        if content is None:
            return False
        self._epochs = [pair[0] for pair in content]
        self._starts = [pair[1] for pair in content]
        return True

    def clear(self) -> None:
        """Clear the state before the batches are replayed."""
        self._epochs, self._starts = [], []
        self.is_behind = True

    @property
    def latest(self) -> int:
        return self._epochs[-1] if self._epochs else NO_EPOCH

    @property
    def latest_start(self) -> int:
        """Where the latest epoch starts; 0 if there is none."""
        return self._starts[-1] if self._starts else 0

    def observe(self, epoch: int, offset: int) -> None:
        """`epoch` starts at `offset`. It replaces an epoch that started there and wrote no record."""
        if self._epochs and epoch <= self._epochs[-1]:
            return
        while self._starts and self._starts[-1] >= offset:
            del self._epochs[-1], self._starts[-1]
        self._epochs.append(epoch)
        self._starts.append(offset)
        self.is_behind = True

    def save(self, *, sync: bool = False) -> None:
        """Write the file. Usually not synced: every batch carries its epoch, so the file can be rebuilt."""
        if self.is_behind:
            checksummed_file.write(
                self._files, self._path, list(zip(self._epochs, self._starts, strict=True)), sync=sync
            )
            self.is_behind = False

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """(largest epoch at or before the requested one, its end offset); (-1, -1) if unknown."""
        if not self._epochs or epoch > self._epochs[-1] or epoch < 0:
            return NO_EPOCH, -1
        if epoch == self._epochs[-1]:
            return epoch, log_end
        at = bisect_right(self._epochs, epoch) - 1
        return (epoch, self._starts[0]) if at < 0 else (self._epochs[at], self._starts[at + 1])

    def at_offset(self, offset: int) -> int:
        """The epoch in which `offset` was written; -1 if unknown."""
        at = bisect_right(self._starts, offset) - 1
        return self._epochs[at] if at >= 0 else NO_EPOCH

    def cut_end(self, offset: int) -> None:
        """Remove epochs that start at or after `offset`."""
        keep = next((at for at, start in enumerate(self._starts) if start >= offset), len(self._starts))
        self.is_behind = self.is_behind or keep < len(self._starts)
        del self._epochs[keep:], self._starts[keep:]

    def cut_start(self, offset: int) -> None:
        """Remove epochs that ended before `offset`; the current one now starts there."""
        at = bisect_right(self._starts, offset) - 1
        if at < 0 or self._starts[0] == offset:
            return
        del self._epochs[:at], self._starts[:at]
        self._starts[0] = offset
        self.is_behind = True
