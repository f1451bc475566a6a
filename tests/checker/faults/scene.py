"""What all faults share: the site, chances from the seed, notes for the history, and processes that die and return."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from checker.history import INFO, NEMESIS, Event, topic_of
from checker.sight import COORDINATOR_TOPICS, NO_LEADER, PartitionView
from checker.site import Site, SiteBroker
from checker.workers.__main__ import GROUP
from penstock.client.raw.cluster import KeyKind
from penstock.testing import BrokerDied

DOWN_S = (0.0, 1.0)
LONG_DOWN_S = (3.5, 6.0)
"""Longer than a session lives: the controller fences the broker."""
LONG_DOWN_SHARE = 1 / 4
SLOTS = 3


class Scene:
    """Chances are drawn before anything is looked up, so that the same seed draws the same whatever is found."""

    def __init__(self, site: Site, keys: int, rng: random.Random, note: Callable[[Event], None]) -> None:
        self.site = site
        self.rng = rng
        self._keys = keys
        self._note = note

    # -- victims

    def any(self) -> SiteBroker:
        return self.rng.choice(self.site.brokers)

    def some(self, count_max: int) -> list[SiteBroker]:
        return self.rng.sample(self.site.brokers, self.rng.randint(1, max(1, count_max)))

    @property
    def minority(self) -> int:
        return (len(self.site.brokers) - 1) // 2

    def controller(self) -> SiteBroker:
        other = self.any()
        return self.site.controller() or other

    def leader(self) -> SiteBroker:
        """Of one of the partitions that are written."""
        return self._of_partition(lambda found, _: found.leader)

    def follower(self) -> SiteBroker:
        def choose(found: PartitionView, place: float) -> int:
            others = sorted(set(found.replicas) - {found.leader})
            return others[int(place * len(others))] if others else NO_LEADER

        return self._of_partition(choose)

    def coordinator(self) -> SiteBroker:
        """Of the group, of a transactional id, or of subscriptions."""
        other, kind, slot = self.any(), self.rng.randrange(3), self.rng.randrange(SLOTS)
        sight = self.site.sight
        if kind == 0:
            found = sight.coordinator(KeyKind.GROUP, GROUP)
        elif kind == 1:
            found = sight.coordinator(KeyKind.TRANSACTION, f"{GROUP}-{slot}")
        else:
            one = sight.partition((COORDINATOR_TOPICS[-1], 0))
            found = None if one is None else one.leader
        return self.site.broker(found) or other

    def _of_partition(self, choose: Callable[[PartitionView, float], int]) -> SiteBroker:
        other, key, place = self.any(), self.rng.randrange(self._keys), self.rng.random()
        found = self.site.sight.partition(topic_of(key))
        return (self.site.broker(choose(found, place)) if found is not None else None) or other

    # -- processes

    def kill(self, victims: Sequence[SiteBroker], left_s: float) -> None:
        """kill -9, at once, and a start some time later."""
        is_long, later = self.rng.random() < LONG_DOWN_SHARE, self.rng.random()
        low_s, high_s = LONG_DOWN_S if is_long else DOWN_S
        for broker in victims:
            broker.kill()
        self.note_hosts("killed", victims)
        self.sleep(low_s + later * (high_s - low_s), left_s)
        self.start(victims)

    def start(self, victims: Sequence[SiteBroker]) -> None:
        self.site.each(victims, lambda broker: broker.start())
        self.note_hosts("started", victims)

    def relaunch(self, victim: SiteBroker) -> None:
        """kill -9 and a start that need not succeed before something else is healed."""
        victim.kill()
        self.note_hosts("killed", [victim])
        victim.launch()

    def await_ready(self, victim: SiteBroker) -> None:
        try:
            victim.await_ready()
        except BrokerDied:  # it gave up while it could not reach the store
            victim.start()
        self.note_hosts("started", [victim])

    # -- words

    def note_hosts(self, what: str, brokers: Sequence[SiteBroker]) -> None:
        self.write(what, [broker.host_name for broker in brokers])

    def write(self, what: str, value: object = None) -> None:
        self._note(Event(NEMESIS, time.monotonic_ns(), INFO, what, value))

    @staticmethod
    def sleep(wanted_s: float, left_s: float) -> None:
        time.sleep(max(0.0, min(wanted_s, left_s)))
