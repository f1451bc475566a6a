"""What the node takes from the world.

Clock, chance, files, worker threads. Never created inside the node; mains and simulators do that.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.ports import Clock, Files, Rng
from penstock.node.workers import Workers


@dataclass(frozen=True, slots=True)
class Runtime:
    """One node's way to the outside."""

    clock: Clock
    rng: Rng
    files: Files
    workers: Workers
