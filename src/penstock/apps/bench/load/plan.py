"""What a load sends, and the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.apps.bench.load.latency import show_us
from penstock.client.access import Security
from penstock.node.definitions.units import show_bytes

OnStep = Callable[[int], None]
"""Called with the number of messages done so far."""


class LoadFailed(Exception):
    """The load could not be completed; the message says why."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """`count` messages of `size` bytes, `rate` per second or, if None, as fast as possible."""

    bootstrap: str
    topic: str
    count: int
    size: int
    rate: float | None = None
    acks: str = "all"
    compression: str = "none"
    linger_ms: float = 5.0
    batch_bytes: int = 1_000_000
    partitions: int = 1
    client: dict[str, str] = field(default_factory=dict)
    security: Security = field(default_factory=Security)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Figures of one load."""

    what: str
    messages: int
    payload_bytes: int
    seconds: float
    failed: int = 0
    rate_asked: float | None = None
    latency_us: dict[str, int] = field(default_factory=dict)
    redelivered: int = 0

    @property
    def messages_per_s(self) -> float:
        return self.messages / self.seconds if self.seconds > 0 else 0.0

    @property
    def mb_per_s(self) -> float:
        return self.payload_bytes / self.seconds / 1e6 if self.seconds > 0 else 0.0

    def line(self) -> str:
        """The result as one line of text."""
        parts = [
            f"{self.what}: {self.messages:,} messages, {show_bytes(self.payload_bytes)} in {self.seconds:.2f} s",
            f"{self.messages_per_s:,.0f} msg/s",
            f"{self.mb_per_s:,.1f} MB/s",
        ]
        parts += [f"{name} {show_us(value)}" for name, value in self.latency_us.items()]
        if self.failed:
            parts.append(f"{self.failed:,} FAILED")
        if self.redelivered:
            parts.append(f"{self.redelivered:,} redelivered")
        return "  ".join(parts)

    def as_json(self) -> dict[str, Any]:
        rates = {"messages_per_s": round(self.messages_per_s, 1), "mb_per_s": round(self.mb_per_s, 3)}
        return {**asdict(self), "seconds": round(self.seconds, 6), **rates}
