"""Decides when a failed pipeline is restarted and when it is given up. A state machine without clock and without Spark.

`NEXT` holds the transitions. Times are arguments. The backoff doubles with every consecutive restart; the restart count
is reset once a pipeline has run without failure for `STEADY_MS`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

STARTING, RUNNING, RESTARTING, STOPPED, FAILED = "starting", "running", "restarting", "stopped", "failed"
ENDED = (STOPPED, FAILED)
"""Terminal states."""


class PipelineMove(Enum):
    """Triggers of a state transition. After a failure, the restart policy chooses RETRY or GIVE_UP."""

    START = "start"
    END = "end"
    RETRY = "retry"
    GIVE_UP = "give up"
    RESTART = "restart"


NEXT = {
    (STARTING, PipelineMove.START): RUNNING,
    (STARTING, PipelineMove.END): STOPPED,
    (STARTING, PipelineMove.RETRY): RESTARTING,
    (STARTING, PipelineMove.GIVE_UP): FAILED,
    (RUNNING, PipelineMove.END): STOPPED,
    (RUNNING, PipelineMove.RETRY): RESTARTING,
    (RUNNING, PipelineMove.GIVE_UP): FAILED,
    (RESTARTING, PipelineMove.RESTART): STARTING,
    (RESTARTING, PipelineMove.END): STOPPED,
}
"""Every legal transition; any other is a defect."""

BACKOFF_MS = 1_000
BACKOFF_MS_MAX = 60_000
ONCE_RESTARTS_MAX = 3
"""Someone is waiting for a `--once` run, so it gives up early."""
STEADY_MS = 300_000
"""After this long without a failure, the restart count starts again at 0."""


class Fault(Enum):
    """Whether a retry can succeed."""

    FINAL = "the definition, the data or the table must change first"
    TRANSIENT = "a dependency was unavailable"
    UNKNOWN = "the error text does not tell"


_FINAL = re.compile(
    r"\b(?:WrongDefinition|ForeignCheckpoint|AlreadyRunning|SchemaMismatch|BadRows"
    r"|BadArgument|NotFound|RecordsLost|AnalysisException|ParseException): "
)
_TRANSIENT = re.compile(
    r"failed to connect back|Connection re(?:fused|set)|StatusCode\.UNAVAILABLE|No space left on device"
    r"|ExecutorLostFailure|Python worker exited unexpectedly"
    r"|\b(?:Unreachable|TimedOut|Aborted|DeliveryFailed|NotLeader): "
)


def fault_of(error: str) -> Fault:
    """Classify an error by its text. A text that matches both patterns counts as transient."""
    if _TRANSIENT.search(error):
        return Fault.TRANSIENT
    return Fault.FINAL if _FINAL.search(error) else Fault.UNKNOWN


@dataclass(frozen=True)
class RestartPolicy:
    """How often to restart. A `--once` run retries transient faults only, at most `ONCE_RESTARTS_MAX` times."""

    restarts_max: int | None
    is_once: bool = False

    def allows(self, fault: Fault, restarts: int) -> bool:
        if fault is Fault.FINAL or (
            self.is_once and (fault is Fault.UNKNOWN or restarts >= ONCE_RESTARTS_MAX)
        ):
            return False
        return self.restarts_max is None or restarts < self.restarts_max


@dataclass
class Supervision:
    """One pipeline: its state and since when, its restart count, and its last failure."""

    policy: RestartPolicy
    since_ms: int
    state: str = STARTING
    restarts: int = 0
    due_ms: int = 0
    error: str = ""
    failed_ms: int | None = None

    def started(self, now_ms: int) -> None:
        self._move(PipelineMove.START, now_ms)

    def ended(self, now_ms: int) -> None:
        """The query finished or was stopped."""
        if self.state not in ENDED:
            self._move(PipelineMove.END, now_ms)

    def failed(self, now_ms: int, fault: Fault, reason: str) -> None:
        if self.state == RUNNING and now_ms - self.since_ms >= STEADY_MS:
            self.restarts = 0
        self.error, self.failed_ms = reason, now_ms
        if not self.policy.allows(fault, self.restarts):
            self._move(PipelineMove.GIVE_UP, now_ms)
            return
        self.due_ms = now_ms + min(BACKOFF_MS_MAX, BACKOFF_MS << min(self.restarts, 20))
        self.restarts += 1
        self._move(PipelineMove.RETRY, now_ms)

    def is_due(self, now_ms: int) -> bool:
        return self.state == RESTARTING and now_ms >= self.due_ms

    def restarting(self, now_ms: int) -> None:
        assert self.is_due(now_ms)
        self._move(PipelineMove.RESTART, now_ms)

    def _move(self, move: PipelineMove, now_ms: int) -> None:
        assert (self.state, move) in NEXT, f"a pipeline that is {self.state} cannot {move.value}"
        self.state, self.since_ms = NEXT[self.state, move], now_ms
