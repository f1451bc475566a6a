"""A campaign as one JSON document: what was run, how much happened, what was found. Written again after every run."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from checker.cluster_nemesis import CLUSTER_FAULTS
from checker.plan import Outcome

FAULTS_SHOWN = frozenset(CLUSTER_FAULTS) | {
    "kill-broker",
    "pause-broker",
    "kill-worker",
    "cut-logs",
    "dead-at-the-end",
}
"""Of what the nemesis notes, the faults; the rest says when they were healed."""


def faults_of(outcomes: Iterable[Outcome]) -> dict[str, int]:
    total = sum((Counter(outcome.faults) for outcome in outcomes), Counter[str]())
    return {what: total[what] for what in sorted(total) if what in FAULTS_SHOWN}


def anomalies_of(outcomes: Iterable[Outcome]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for outcome in outcomes:
        if outcome.verdict is not None:
            counts = outcome.verdict.findings.counts
            total.update({kind: counts[kind] for kind in outcome.verdict.invalid_kinds})
    return dict(sorted(total.items()))


class Report:
    """The figures of a campaign, whatever they are shown with."""

    def __init__(self, outcomes: Sequence[Outcome], skipped: dict[str, str]) -> None:
        self._outcomes = outcomes
        self.skipped = skipped
        self._commit = _commit()

    def figures(self) -> dict[str, Any]:
        outcomes = self._outcomes
        counts = [outcome.verdict.counts for outcome in outcomes if outcome.verdict is not None]
        return {
            "runs": len(outcomes),
            "judged": sum(outcome.is_judged for outcome in outcomes),
            "good": sum(outcome.is_good for outcome in outcomes),
            "seconds": round(sum(outcome.took_s for outcome in outcomes)),
            "operations": sum(outcome.load_ops for outcome in outcomes),
            "operations_fewest": min((outcome.load_ops for outcome in outcomes), default=0),
            "acknowledged_records": sum(one.acked for one in counts),
            "operations_unknown": sum(one.info for one in counts),
            "leader_changes": sum(outcome.leader_changes for outcome in outcomes),
            "isr_changes": sum(outcome.isr_changes for outcome in outcomes),
            "moves": sum(outcome.moves for outcome in outcomes),
            "preferred_elections": sum(outcome.elections for outcome in outcomes),
            "topic_changes": sum(outcome.topic_changes for outcome in outcomes),
            "faults": faults_of(outcomes),
            "anomalies": anomalies_of(outcomes),
            "problems": sum(len(outcome.problems) for outcome in outcomes),
        }

    def document(self) -> dict[str, Any]:
        plan = self._outcomes[0].plan
        lacks = {part: why for outcome in self._outcomes for part, why in outcome.lacks.items()}
        return {
            "brokers": plan.peer,
            "commit": self._commit,
            "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "nodes": plan.nodes,
            "replication_factor": plan.rf,
            "min_insync_replicas": plan.min_isr,
            "store": plan.store if plan.nodes > 1 else "own file",
            "load_seconds": plan.seconds,
            "operations_min": plan.ops_min,
            **self.figures(),
            "skipped": self.skipped,
            "not_possible": dict(sorted(lacks.items())),
            "each": [_row(outcome) for outcome in self._outcomes],
        }

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f"{path.name}.new")
        scratch.write_text(json.dumps(self.document(), indent=1) + "\n", encoding="utf-8")
        scratch.replace(path)


def _row(outcome: Outcome) -> dict[str, Any]:
    plan = outcome.plan
    return {
        "seed": plan.seed,
        "mode": plan.mode,
        "subscribes": plan.subscribes,
        "moves": outcome.moves,
        "dead_at_the_end": plan.dead,
        "seconds": round(outcome.took_s, 1),
        "operations": outcome.load_ops,
        "acknowledged_records": 0 if outcome.verdict is None else outcome.verdict.counts.acked,
        "leader_changes": outcome.leader_changes,
        "isr_changes": outcome.isr_changes,
        "faults": faults_of([outcome]),
        "anomalies": anomalies_of([outcome]),
        "problems": outcome.problems,
        "good": outcome.is_good,
    }


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
