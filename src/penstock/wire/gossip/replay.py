"""Recognises packets that were received before. Bounded memory; no clock.

Per sender and run, packets up to a window behind the newest are remembered; older ones are rejected. A run that was
replaced long ago is forgotten, so its packets could be replayed once more: they are hints of a past incarnation, which
peers ignore.
"""

from __future__ import annotations

from collections import OrderedDict

from penstock.core.limits import GOSSIP_PEERS_MAX

WINDOW_PACKETS = 256
"""How far packets may overtake each other."""
WINDOWS_MAX = 2 * GOSSIP_PEERS_MAX
"""Two runs of every peer."""

_MASK = (1 << WINDOW_PACKETS) - 1


class ReplayGuard:
    """The windows of all senders, the least recently used of which is dropped first."""

    def __init__(self) -> None:
        self._windows: OrderedDict[tuple[int, int], tuple[int, int]] = OrderedDict()
        """(sender, run) → (newest sequence, bits of those seen up to it)"""

    def __len__(self) -> int:
        return len(self._windows)

    def is_new(self, sender_id: int, run: int, sequence: int) -> bool:
        """Remember an authentic packet; False if it was seen, or is too old to know."""
        key = sender_id, run
        newest, seen = self._windows.get(key, (sequence - 1, 0))
        ahead = sequence - newest
        if ahead > 0:
            seen = ((seen << ahead) & _MASK if ahead < WINDOW_PACKETS else 0) | 1
            newest = sequence
        else:
            bit = 1 << -ahead if ahead > -WINDOW_PACKETS else 0
            if not bit or seen & bit:
                return False
            seen |= bit
        self._windows[key] = newest, seen
        self._windows.move_to_end(key)
        if len(self._windows) > WINDOWS_MAX:
            self._windows.popitem(last=False)
        return True
