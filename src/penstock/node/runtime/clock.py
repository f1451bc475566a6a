"""System clock and entropy. The core gets both as arguments."""

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
