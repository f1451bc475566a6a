"""Whether a replica that returned gains on its leader, with time as an argument.

A limit of bytes per second must not keep a replica out of sync forever: if the leader's log grows at least as fast as
the replica copies, the limit is lifted for it.
"""

from __future__ import annotations

GAIN_S = 5.0
"""A replica must come closer to its leader within this time."""


class CatchUpProgress:
    """The lag of one replica, as the answers of its leader tell it."""

    __slots__ = ("_high_watermark", "_lag", "_since_s", "is_losing")

    def __init__(self) -> None:
        self.is_losing = False
        """Whether it has not come closer; true until it has caught up."""
        self._since_s: float | None = None
        self._lag = 0
        self._high_watermark = 0

    def note(self, lag: int, high_watermark: int, now_s: float) -> None:
        """An answer has told the high watermark of the leader, and the committed records that are still missing."""
        if lag <= 0:
            self.is_losing, self._since_s = False, None
            return
        if self._since_s is not None:
            if now_s - self._since_s < GAIN_S:
                return
            # Without new records at the leader the lag can only shrink, however long the replica waits for its turn.
            self.is_losing |= high_watermark > self._high_watermark and lag >= self._lag
        self._since_s, self._lag, self._high_watermark = now_s, lag, high_watermark
