"""What all connections together do in one turn of the loop. Never stops one: each may start one request per turn.

Without it hundreds of connections, each within its own share, make one turn last for seconds.
"""

from __future__ import annotations

import asyncio

from penstock.node.connections.turns import UNITS_PER_TURN

CROWD_UNITS = 4 * UNITS_PER_TURN
"""Shared by those who bring much in one turn."""

MUCH_UNITS = 8
"""Ordinary clients use up less in one turn, and are not counted."""


class Crowd:
    """One per gate."""

    def __init__(self) -> None:
        self._left = CROWD_UNITS
        self._is_counting = False

    @property
    def share(self) -> int:
        """What the next connection may use up in this turn."""
        return max(1, min(UNITS_PER_TURN, self._left))

    def spend(self, loop: asyncio.AbstractEventLoop, units: int) -> None:
        if units < MUCH_UNITS:
            return
        self._left -= units
        if not self._is_counting:
            self._is_counting = True
            loop.call_soon(self._renew)

    def _renew(self) -> None:
        self._is_counting = False
        self._left = CROWD_UNITS
