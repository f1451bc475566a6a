"""Settings of the gRPC services: limits, and how their clients of the cluster behave. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PRODUCER_PORT = 9193
CONSUMER_PORT = 9194

MESSAGE_BYTES_MAX = 16 << 20
"""Default limit of one gRPC message in both directions."""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """What both services share. Without a `coordinator` the brokers are at `bootstrap`."""

    host: str
    port: int
    bootstrap: str | None = None
    coordinator: str | None = None
    message_bytes_max: int = MESSAGE_BYTES_MAX
    ready_file: Path | None = None
    client_options: dict[str, Any] = field(default_factory=dict, repr=False)
    """Security options of the clients of the brokers."""


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How the producer service writes."""

    linger_ms: float = 5.0
    batch_bytes_max: int = 1_000_000
    compression: str = "none"
    retries: int | None = None
    """None: no limit besides `delivery_s_max`."""
    delivery_s_max: float = 30.0
    in_flight_records_max: int = 50_000
    in_flight_bytes_max: int = 64 << 20


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """How the consumer service reads."""

    session_ms: int = 10_000
    fetches_max: int = 16
    """Fetch calls in progress; each has a thread."""
    streams_max: int = 500
    """Subscribe calls in progress; each has a thread."""
