"""Bounds the work of all connections in one loop iteration. Each connection may always start one request.

Without it, hundreds of connections, each within its own share, could make one iteration last seconds.
"""

from __future__ import annotations

import asyncio

from penstock.node.connections.turns import UNITS_PER_TURN

CROWD_UNITS = 4 * UNITS_PER_TURN
"""Shared by the connections that are busy in one iteration."""

MUCH_UNITS = 8
"""Connections that spend less than this in one iteration are not counted."""


class Crowd:
    """One per gate."""

    def __init__(self) -> None:
        self._left = CROWD_UNITS
        self._is_counting = False

    @property
    def share(self) -> int:
        """Units that the next connection may spend in this iteration."""
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
