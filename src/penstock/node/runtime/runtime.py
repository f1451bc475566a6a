"""The dependencies of a node on the outside world.

Clock, entropy, files, worker threads, meters. Programs and simulators create it, never the node itself.
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
    """The runtime of one node."""

    clock: Clock
    rng: Rng
    files: Files
    workers: Workers
    boot_id: str = ""
    """Identifies this run of the operating system; empty if unknown."""
    meters: Meters = field(default_factory=Meters)
    payloads: Payloads = field(default_factory=Payloads)
    slices: Slices = field(default_factory=Slices)
