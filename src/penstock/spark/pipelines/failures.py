"""Failures of Spark as one sentence with what to do about it. Never decides whether to try again."""

from __future__ import annotations

import re


def describe_failure(name: str, error: str) -> str:
    """What Spark says, with what to do about it where that is known."""
    said = error.partition(_OF_THE_QUERY)[0].rpartition(_ENDED_BY)[2]
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["no words"]
    raised = [line for line in lines if _RAISED.match(line)]
    for sign, remedy in _REMEDIES.items():
        if telling := next((line for line in (*raised, *lines) if sign in line), None):
            return f"{name}: {_OUR_NAME.sub('', telling)[:500]} {remedy}"
    ours = [_OUR_NAME.sub("", line) for line in raised if _OUR_NAME.match(line)]
    cause = (ours or raised or lines[:1])[-1]
    return f"{name}: {cause[:800]}".replace(f"{name}: {name}: ", f"{name}: ")


_ENDED_BY = "terminated with exception: "
_OF_THE_QUERY = "=== Streaming Query ==="
"""Between these two Spark says why a query ended; then come its plan and its state, which is no cause of anything."""
_RAISED = re.compile(r"([a-z_]+(\.[A-Za-z_]+)+|[A-Z]\w*(Error|Exception)): .")
"""The last line of a traceback: the full name of an error, and what it says."""
_OUR_NAME = re.compile(r"penstock\.[A-Za-z_.]+: ")
_REMEDIES = {
    "No space left on device": "The disk is full: make space and run it again; it goes on where it stopped.",
    "Unreachable": "Nobody answers there: start the broker and run it again; it goes on where it stopped.",
    "failed to connect back": "This machine was too busy to start Python within Spark's ten seconds: let it do less at "
    "once and run it again; it goes on where it stopped.",
    "OutOfMemoryError": "Give Spark more memory (spark.conf: spark.driver.memory), or smaller batches.",
}
