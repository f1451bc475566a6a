"""The decision about a batch request: the events of the entries that are valid, and a result for every entry."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from penstock.core.machines.security.events import SecurityEvent

ResultsT = TypeVar("ResultsT")


class SecurityDecision(NamedTuple, Generic[ResultsT]):
    """The host persists `events` as one append, applies them, and answers with `results` once they are durable."""

    events: list[SecurityEvent]
    results: ResultsT
