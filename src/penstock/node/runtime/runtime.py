"""What the node takes from the world.

Clock, chance, files, worker threads; and the instruments that it is watched by. Never created inside the node; mains
and simulators do that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.core.ports import Clock, Files, Rng
from penstock.node.runtime.meters import Meters
from penstock.node.runtime.payloads import Payloads
from penstock.node.runtime.slices import Slices
from penstock.node.runtime.workers import Workers


@dataclass(frozen=True, slots=True)
class Runtime:
    """One node's way to the outside."""

    clock: Clock
    rng: Rng
    files: Files
    workers: Workers
    meters: Meters = field(default_factory=Meters)
    payloads: Payloads = field(default_factory=Payloads)
    slices: Slices = field(default_factory=Slices)
