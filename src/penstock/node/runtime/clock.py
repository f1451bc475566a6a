"""The real world's time and chance. Never used by the core, which is given them."""

from __future__ import annotations

import secrets
import time


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class SystemRng:
    """The machine's entropy."""

    def bytes(self, count: int) -> bytes:
        return secrets.token_bytes(count)

    def below(self, bound: int) -> int:
        return secrets.randbelow(bound)
