"""When a pipeline that failed is started again, and when it is given up: a machine without a clock and without Spark.

    NEXT[state, event] → state
    starting   started → running      failed → restarting | failed
    running    ended   → stopped      failed → restarting | failed
    restarting due     → starting     ended  → stopped

Times are arguments. Each restart in a row waits twice as long as the one before; a pipeline that has run steadily for
a while has its restarts forgotten.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

STARTING, RUNNING, RESTARTING, STOPPED, FAILED = "starting", "running", "restarting", "stopped", "failed"
ENDED = (STOPPED, FAILED)
"""States that nothing follows."""

BACKOFF_MS = 1_000
BACKOFF_MS_MAX = 60_000
ONCE_RESTARTS_MAX = 3
"""Whoever started a run that is to end waits for it."""
STEADY_MS = 300_000
"""After so long without a failure, the next one counts as the first."""


class Fault(Enum):
    """Whether the same start may succeed later."""

    FINAL = "the definition, the data or the table must change first"
    TRANSIENT = "something around the pipeline was not there"
    UNKNOWN = "nothing tells"


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
    """What kind of failure a text of Spark tells of."""
    if _TRANSIENT.search(error):
        return Fault.TRANSIENT
    return Fault.FINAL if _FINAL.search(error) else Fault.UNKNOWN


@dataclass(frozen=True)
class RestartPolicy:
    """How patient to be. A run that is to end by itself repeats only what is known to pass, and not for long."""

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
    """One pipeline: its state, since when, how often it was restarted, and the last failure."""

    policy: RestartPolicy
    since_ms: int
    state: str = STARTING
    restarts: int = 0
    due_ms: int = 0
    error: str = ""
    failed_ms: int | None = None

    def started(self, now_ms: int) -> None:
        assert self.state == STARTING, self.state
        self._enter(RUNNING, now_ms)

    def ended(self, now_ms: int) -> None:
        """It has done what it was to do, or was stopped."""
        if self.state not in ENDED:
            self._enter(STOPPED, now_ms)

    def failed(self, now_ms: int, fault: Fault, reason: str) -> None:
        assert self.state in (STARTING, RUNNING), self.state
        if self.state == RUNNING and now_ms - self.since_ms >= STEADY_MS:
            self.restarts = 0
        self.error, self.failed_ms = reason, now_ms
        if not self.policy.allows(fault, self.restarts):
            self._enter(FAILED, now_ms)
            return
        self.due_ms = now_ms + min(BACKOFF_MS_MAX, BACKOFF_MS << min(self.restarts, 20))
        self.restarts += 1
        self._enter(RESTARTING, now_ms)

    def is_due(self, now_ms: int) -> bool:
        return self.state == RESTARTING and now_ms >= self.due_ms

    def restarting(self, now_ms: int) -> None:
        assert self.is_due(now_ms)
        self._enter(STARTING, now_ms)

    def _enter(self, state: str, now_ms: int) -> None:
        self.state, self.since_ms = state, now_ms
