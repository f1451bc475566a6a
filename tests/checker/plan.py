"""What a run is asked to do, and what came of it. Everything but the timing of the machine follows from the plan."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from checker.analysis import Verdict
from checker.store import COORDINATOR

STACKS = ("confluent", "aiokafka", "kafka-python")
MODES = ("plain", "groups", "txn", "queue")
PENSTOCK, KAFKA = "penstock", "kafka"
PEERS = (PENSTOCK, KAFKA)
RF_DEFAULT = 3
DEAD_SHARE = 1 / 3
"""Of the runs whose replicas allow it: everything is read while a broker is down."""


def default_rf(nodes: int) -> int:
    return min(RF_DEFAULT, nodes)


def default_min_isr(rf: int) -> int:
    return rf - 1 if rf >= RF_DEFAULT else 1


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. `rf` and `min_isr` apply to every topic."""

    seed: int
    seconds: float = 20.0
    mode: str = "plain"
    via: str = ""
    """`assign` or `subscribe`; empty: what the mode implies, and for transactions either, by the seed."""
    faults: tuple[str, ...] = ("kill", "pause")
    nodes: int = 1
    rf: int = 1
    min_isr: int = 1
    peer: str = PENSTOCK
    """Whose brokers they are."""
    store: str = COORDINATOR
    """The metadata store of several nodes."""
    ops_min: int = 0
    """The load goes on until there are so many operations; a run with fewer is not judged."""
    stacks: tuple[str, ...] = STACKS
    workers_per_stack: int = 1
    keys: int = 6
    crash_s_mean: float = 30.0
    final_s_max: float = 200.0

    @property
    def moves(self) -> bool:
        """Whether replicas of a cluster move meanwhile: in half of the runs, in every mode."""
        return self.nodes > 1 and self._chance("moves") < 0.5

    @property
    def dead(self) -> int:
        """Brokers that are down while everything is read at the end: as many as the replicas must be able to spare."""
        spare = self.rf - self.min_isr
        return min(1, spare) if self._chance("dead") < DEAD_SHARE else 0

    @property
    def subscribes(self) -> bool:
        if self.via:
            return self.via == "subscribe"
        return self.mode == "groups" or (self.mode == "txn" and self.seed // len(MODES) % 2 == 1)

    def _chance(self, what: str) -> float:
        return random.Random(f"{what} {self.seed}").random()


@dataclass(slots=True)
class Outcome:
    """What came of a run. `problems` are what no history shows: a dead worker, a stuck reader, an idle stack."""

    plan: Plan
    missing: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    history: Path | None = None
    verdict: Verdict | None = None
    faults: dict[str, int] = field(default_factory=dict)
    by_stack: dict[str, dict[str, int]] = field(default_factory=dict)
    load_ops: int = 0
    """Operations before everything was read at the end."""
    lacks: dict[str, str] = field(default_factory=dict)
    """Parts of the site that are not there, and why: faults to them are left out."""
    topic_changes: int = 0
    """Topics created, grown and deleted meanwhile, as far as that was acknowledged."""
    moves: int = 0
    """Changes of replica sets that were accepted meanwhile."""
    elections: int = 0
    """Elections of preferred leaders that were accepted meanwhile."""
    leader_changes: int = 0
    """By the leader epochs of all partitions, internal ones too."""
    isr_changes: int = 0
    """As seen in metadata: changes back and forth between two looks are missed."""
    took_s: float = 0.0
    kept: Path | None = None
    """Where everything of the run is, if it was kept."""

    @property
    def is_judged(self) -> bool:
        """Whether enough happened for the verdict to say something."""
        return self.verdict is not None and self.load_ops >= self.plan.ops_min

    @property
    def is_good(self) -> bool:
        return self.verdict is not None and self.verdict.is_valid and self.is_judged and not self.problems
