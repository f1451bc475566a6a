"""The registry of subscriptions: their definitions, and the machine of each partition.

A subscription is created with a start offset in every partition and removed with all its state. The machines inside
(`subscription`) decide about messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.core.errors import InvalidRequest, UnknownGroup
from penstock.core.limits import SUBSCRIPTION_IN_FLIGHT_MAX
from penstock.core.machines.subscriptions.definitions import Defined, SubscriptionDefinition
from penstock.core.machines.subscriptions.events import Feed, StartMoved
from penstock.core.machines.subscriptions.members import Members
from penstock.core.machines.subscriptions.subscription import Subscription, SubscriptionTerms

_UNKNOWN_TERMS = SubscriptionTerms(
    hold_ms=1, deliveries_max=1, in_flight_max=SUBSCRIPTION_IN_FLIGHT_MAX, has_dead_letters=True
)
"""Terms of machines whose definition was not replayed yet: a compacted log may contain it after their events."""


class SubscriptionBook:
    """The machine. One per partition of the subscriptions' topic."""

    def __init__(self) -> None:
        self._definitions: dict[str, SubscriptionDefinition] = {}
        self._members: dict[str, Members] = {}
        self._feeds: dict[str, dict[Feed, Subscription]] = {}
        self._touched: Subscription | None = None

    # -- reading

    @property
    def definitions(self) -> list[SubscriptionDefinition]:
        """All definitions, sorted by name."""
        return [self._definitions[name] for name in sorted(self._definitions)]

    def find(self, name: str) -> SubscriptionDefinition | None:
        return self._definitions.get(name)

    def get(self, name: str) -> SubscriptionDefinition:
        found = self._definitions.get(name)
        if found is None:
            raise UnknownGroup(f"there is no subscription {name!r}; create it first")
        return found

    def members(self, name: str) -> Members:
        return self._members.setdefault(name, Members())

    def machines(self, name: str) -> list[Subscription]:
        """The machines of a subscription, by partition."""
        feeds = self._feeds.get(name, {})
        return [feeds[feed] for feed in sorted(feeds)]

    # -- deciding

    def decide_create(self, wanted: SubscriptionDefinition, starts: Sequence[int]) -> list[Any]:
        """Create a subscription that starts at these offsets, one per partition. Idempotent."""
        known = self._definitions.get(wanted.name)
        if known is None:
            feeds = [Feed(wanted.name, wanted.topic_id, partition) for partition in range(len(starts))]
            moves = [StartMoved(feed, offset) for feed, offset in zip(feeds, starts, strict=True)]
            return [Defined(wanted.name, wanted), *moves]
        if (known.topic_id, known.hold_ms, known.deliveries_max) != (
            wanted.topic_id,
            wanted.hold_ms,
            wanted.deliveries_max,
        ):
            raise InvalidRequest(
                f"subscription {known.name!r} already exists: to {known.topic!r},  {known.hold_ms} ms for each "
                f"message, {known.deliveries_max} deliveries; delete it first, or choose another name"
            )
        return []

    def decide_extend(self, name: str, partition_count: int) -> list[Any]:
        """The topic has new partitions, which are delivered from their start."""
        definition, known = self.get(name), {feed.partition for feed in self._feeds.get(name, {})}
        return [
            StartMoved(Feed(name, definition.topic_id, partition), 0)
            for partition in range(partition_count)
            if partition not in known
        ]

    def decide_redriven(self, name: str, upto_offset: int) -> list[Any]:
        """The dead letters before this offset were redriven to the topic."""
        return [Defined(name, self.get(name)._replace(redriven_offset=upto_offset))]

    def decide_remove(self, name: str) -> list[Any]:
        """Delete a subscription with all its state."""
        self.get(name)
        events: list[Any] = [event for machine in self.machines(name) for event in machine.decide_remove()]
        return [*events, Defined(name, None)]

    # -- writing

    def apply(self, event: Any) -> None:
        """Apply an event. Never fails."""
        kind = type(event)
        if kind is Defined:
            self._define(event)
            return
        feed: Feed = event.feed
        machine = self._machine_at(feed)
        machine.apply(event)
        if kind is StartMoved and event.start_offset is None:
            self._touched = None
            del self._feeds[feed.name][feed]
            if not self._feeds[feed.name]:
                del self._feeds[feed.name]

    def _machine_at(self, feed: Feed) -> Subscription:
        """The machine of an event, created if needed. Events come in runs, so the last machine is cached."""
        touched = self._touched
        if touched is not None and touched.feed is feed:
            return touched
        feeds = self._feeds.setdefault(feed.name, {})
        machine = feeds.get(feed)
        if machine is None:
            terms = self._terms(self._definitions.get(feed.name))
            machine = feeds[feed] = Subscription(feed, terms, self.members(feed.name))
        self._touched = machine
        return machine

    def _define(self, event: Defined) -> None:
        if event.definition is None:
            self._definitions.pop(event.name, None)
            self._members.pop(event.name, None)
            return
        self._definitions[event.name] = event.definition
        for machine in self._feeds.get(event.name, {}).values():
            machine.terms = self._terms(event.definition)

    @staticmethod
    def _terms(definition: SubscriptionDefinition | None) -> SubscriptionTerms:
        if definition is None:
            return _UNKNOWN_TERMS
        return _UNKNOWN_TERMS._replace(hold_ms=definition.hold_ms, deliveries_max=definition.deliveries_max)
