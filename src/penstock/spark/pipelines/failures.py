"""Reduces a Spark failure to one sentence with a remedy. `supervision` decides whether to retry."""

from __future__ import annotations

import re


def describe_failure(name: str, error: str) -> str:
    """The cause in Spark's error text, with a remedy if one is known."""
    cause_text = error.partition(_OF_THE_QUERY)[0].rpartition(_ENDED_BY)[2]
    lines = [line.strip() for line in cause_text.splitlines() if line.strip()] or ["no error message"]
    raised = [line for line in lines if _RAISED.match(line)]
    for sign, remedy in _REMEDIES.items():
        if telling := next((line for line in (*raised, *lines) if sign in line), None):
            return f"{name}: {_OUR_NAME.sub('', telling)[:500]} {remedy}"
    ours = [_OUR_NAME.sub("", line) for line in raised if _OUR_NAME.match(line)]
    cause = (ours or raised or lines[:1])[-1]
    return f"{name}: {cause[:800]}".replace(f"{name}: {name}: ", f"{name}: ")


_ENDED_BY = "terminated with exception: "
_OF_THE_QUERY = "=== Streaming Query ==="
"""Spark puts the cause between these two; the query plan and state that follow are not part of it."""
_RAISED = re.compile(r"([a-z_]+(\.[A-Za-z_]+)+|[A-Z]\w*(Error|Exception)): .")
"""The last line of a traceback: the qualified name of an error, and its message."""
_OUR_NAME = re.compile(r"penstock\.[A-Za-z_.]+: ")
_REMEDIES = {
    "No space left on device": "The disk is full: free some space and run it again; it continues where it stopped.",
    "Unreachable": "Start the broker and run the pipeline again; it continues where it stopped.",
    "failed to connect back": "This machine was too busy to start Python within Spark's ten seconds: reduce its load "
    "and run it again; it continues where it stopped.",
    "OutOfMemoryError": "Increase Spark's memory (spark.conf: spark.driver.memory), or reduce the batch size.",
}
