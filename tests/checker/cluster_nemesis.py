"""Faults of a cluster while the load runs: of brokers, the controller, the metadata store, the network, a disk, clocks.

One at a time, healed before the next one, except that a broker may be killed while the network is cut. Which ones come,
and how long they last, follows from the seed; only what the machine does meanwhile does not.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from checker.history import INFO, NEMESIS, Event
from checker.site import DISK, MEMBERS, NETWORK, TRACE, Site, SiteBroker
from penstock.testing import BrokerDied

CALM_S = (0.5, 2.0)
DOWN_S = (0.0, 1.0)
LONG_DOWN_S = (3.5, 6.0)
"""Longer than a session lives: the controller fences the broker."""
LONG_DOWN_SHARE = 1 / 4
PAUSED_S = (2.0, 15.0, 3.0)
"""Least, most and most frequent duration of a pause."""
CUT_S = (2.0, 9.0)
DISK_S = (2.0, 5.0)
KILL_IN_CUT_SHARE = 1 / 3
SYNC_DELAY_US = 400_000
SKEW_MS = 3_600_000
"""Clocks are moved by up to an hour in either direction."""
TRACE_S_MAX = 10.0

NEEDS = {
    "kill-broker": "",
    "kill-controller": "",
    "kill-two": "",
    "stop-broker": "",
    "pause-broker": "",
    "pause-controller": "",
    "kill-store": "",
    "pause-store": "",
    "kill-majority": "",
    "restart-all": "",
    "cut-brokers": NETWORK,
    "cut-one-way": NETWORK,
    "isolate-broker": NETWORK,
    "cut-store": NETWORK,
    "cut-store-one-way": NETWORK,
    "cut-member": MEMBERS,
    "full-disk": DISK,
    "slow-disk": TRACE,
    "clock-jump": "",
}
"""Faults, and the part of the site that each needs."""
CLUSTER_FAULTS = tuple(NEEDS)


class ClusterNemesis:
    """Deals all faults that were asked for from a shuffled deck, then shuffles again."""

    def __init__(
        self, site: Site, faults: Sequence[str], rng: random.Random, note: Callable[[Event], None]
    ) -> None:
        self._site = site
        self._rng = rng
        self._note = note
        self._acts: dict[str, Callable[[float], None]] = {
            "kill-broker": lambda left_s: self._kill([self._any()], left_s),
            "kill-controller": lambda left_s: self._kill([self._controller()], left_s),
            "kill-two": lambda left_s: self._kill(self._rng.sample(site.brokers, 2), left_s),
            "stop-broker": self._stop,
            "pause-broker": lambda left_s: self._pause(self._any(), left_s),
            "pause-controller": lambda left_s: self._pause(self._controller(), left_s),
            "kill-store": lambda left_s: self._kill_store(self._rng.sample(site.store.hosts, 1), left_s),
            "pause-store": self._pause_store,
            "kill-majority": lambda left_s: self._kill_store(
                self._rng.sample(site.store.hosts, len(site.store.hosts) // 2 + 1), left_s
            ),
            "restart-all": self._restart_all,
            "cut-brokers": lambda left_s: self._cut(self._between_brokers(both_ways=True), left_s),
            "cut-one-way": lambda left_s: self._cut(self._between_brokers(both_ways=False), left_s),
            "isolate-broker": lambda left_s: self._cut(self._isolation(), left_s),
            "cut-store": lambda left_s: self._cut(self._to_store(both_ways=True), left_s),
            "cut-store-one-way": lambda left_s: self._cut(self._to_store(both_ways=False), left_s),
            "cut-member": lambda left_s: self._cut(self._between_members(), left_s),
            "full-disk": self._fill_disk,
            "slow-disk": self._slow_disk,
            "clock-jump": self._move_clocks,
        }
        self._faults = [fault for fault in faults if not NEEDS[fault] or site.has(NEEDS[fault])]
        self._deck: list[str] = []

    def turn(self, left_s: float) -> None:
        """A calm while, then one fault, healed before this returns."""
        self._sleep(self._rng.uniform(*CALM_S), left_s)
        if not self._faults:
            return
        if not self._deck:
            self._deck = self._rng.sample(self._faults, len(self._faults))
        fault = self._deck.pop()
        self._write(fault)
        self._acts[fault](left_s)

    # -- brokers

    def _any(self) -> SiteBroker:
        return self._rng.choice(self._site.brokers)

    def _controller(self) -> SiteBroker:
        """Drawn first, so that the same seed draws the same whether or not a controller is found."""
        other = self._any()
        return self._site.controller() or other

    def _kill(self, victims: Sequence[SiteBroker], left_s: float) -> None:
        is_long = self._rng.random() < LONG_DOWN_SHARE
        for broker in victims:
            broker.kill()
        self._note_hosts("killed", victims)
        self._sleep(self._rng.uniform(*(LONG_DOWN_S if is_long else DOWN_S)), left_s)
        self._start(victims)

    def _start(self, victims: Sequence[SiteBroker]) -> None:
        self._site.each(victims, SiteBroker.start)
        self._note_hosts("started", victims)

    def _relaunch(self, victim: SiteBroker) -> None:
        """kill -9 and a start that need not succeed before something else is healed."""
        victim.kill()
        self._note_hosts("killed", [victim])
        victim.launch()

    def _await(self, victim: SiteBroker) -> None:
        try:
            victim.await_ready()
        except BrokerDied:  # it gave up while it could not reach the store
            victim.start()
        self._note_hosts("started", [victim])

    def _stop(self, left_s: float) -> None:
        """A clean restart."""
        broker, down_s = self._any(), self._rng.uniform(*DOWN_S)
        broker.stop()
        self._note_hosts("stopped", [broker])
        self._sleep(down_s, left_s)
        self._start([broker])

    def _pause(self, broker: SiteBroker, left_s: float) -> None:
        broker.pause()
        self._note_hosts("paused", [broker])
        try:
            self._sleep(self._rng.triangular(*PAUSED_S), left_s)
        finally:
            broker.resume()
            self._note_hosts("resumed", [broker])

    # -- the store

    def _kill_store(self, hosts: Sequence[str], left_s: float) -> None:
        is_long = self._rng.random() < LONG_DOWN_SHARE
        kills, victim = self._rng.random() < KILL_IN_CUT_SHARE, self._any()
        self._site.store.kill(hosts)
        self._write("killed", list(hosts))
        if kills:
            self._relaunch(victim)
        self._sleep(self._rng.uniform(*(LONG_DOWN_S if is_long else DOWN_S)), left_s)
        self._site.store.start(hosts)
        self._write("started", list(hosts))
        if kills:
            self._await(victim)

    def _pause_store(self, left_s: float) -> None:
        host = self._rng.choice(self._site.store.hosts)
        self._site.store.pause(host)
        self._write("paused", [host])
        try:
            self._sleep(self._rng.triangular(*PAUSED_S), left_s)
        finally:
            self._site.store.resume(host)
            self._write("resumed", [host])

    def _restart_all(self, left_s: float) -> None:
        """kill -9 of everything, in any order."""
        site, down_s = self._site, self._rng.uniform(*DOWN_S)
        brokers = self._rng.sample(site.brokers, len(site.brokers))
        store_dies_first = self._rng.random() < 0.5
        if store_dies_first:
            site.store.kill(site.store.hosts)
        for broker in brokers:
            broker.kill()
        if not store_dies_first:
            site.store.kill(site.store.hosts)
        self._note_hosts("killed", brokers)
        self._write("killed", list(site.store.hosts))
        self._sleep(down_s, left_s)
        site.store.start(site.store.hosts)
        self._start(brokers)

    # -- the network

    def _between_brokers(self, *, both_ways: bool) -> list[tuple[str, str]]:
        one, other = self._rng.sample([broker.host_name for broker in self._site.brokers], 2)
        return [(one, other), (other, one)] if both_ways else [(one, other)]

    def _isolation(self) -> list[tuple[str, str]]:
        """One broker hears nobody but clients, and only they hear it."""
        chosen = self._any().host_name
        others = [broker.host_name for broker in self._site.brokers if broker.host_name != chosen]
        return [
            cut for other in (*others, *self._site.store.hosts) for cut in ((chosen, other), (other, chosen))
        ]

    def _to_store(self, *, both_ways: bool) -> list[tuple[str, str]]:
        """Between some brokers and the store: all of its members, so that nobody can take a detour."""
        brokers = self._rng.sample(self._site.brokers, self._rng.randint(1, len(self._site.brokers)))
        is_outward = self._rng.random() < 0.5
        cuts = []
        for broker in brokers:
            for host in self._site.store.hosts:
                if both_ways or is_outward:
                    cuts.append((broker.host_name, host))
                if both_ways or not is_outward:
                    cuts.append((host, broker.host_name))
        return cuts

    def _between_members(self) -> list[tuple[str, str]]:
        """One member of the store and the others do not hear each other; brokers reach all of them."""
        chosen = self._rng.choice(self._site.store.hosts)
        others = [host for host in self._site.store.hosts if host != chosen]
        return [cut for other in others for cut in ((chosen, other), (other, chosen))]

    def _cut(self, cuts: Sequence[tuple[str, str]], left_s: float) -> None:
        network = self._site.network
        assert network is not None
        lasts_s, kills = self._rng.uniform(*CUT_S), self._rng.random() < KILL_IN_CUT_SHARE
        victim = self._any()
        until_s = time.monotonic() + min(lasts_s, left_s)
        for source, target in cuts:
            network.cut(source, target)
        self._write("cut", [list(cut) for cut in cuts])
        try:
            self._sleep(lasts_s / 2, left_s / 2)
            if kills:
                self._relaunch(victim)
            self._sleep(until_s - time.monotonic(), left_s)
        finally:
            network.heal()
            self._write("healed")
        if kills:
            self._await(victim)

    # -- disks and clocks

    def _fill_disk(self, left_s: float) -> None:
        broker, lasts_s = self._site.disk_broker, self._rng.uniform(*DISK_S)
        kills = self._rng.random() < 0.5
        self._site.fill_disk()
        try:
            self._sleep(lasts_s, left_s)
            if kills:
                broker.kill()
                self._note_hosts("killed", [broker])
        finally:
            self._site.free_disk()
            self._write("freed")
        if kills:
            self._start([broker])

    def _slow_disk(self, left_s: float) -> None:
        """Every flush of a broker takes long."""
        broker, lasts_s = self._any(), self._rng.uniform(*DISK_S)
        with slow_flushes(broker.pid):
            self._sleep(lasts_s, left_s)
        self._write("healed")

    def _move_clocks(self, left_s: float) -> None:
        """Of one or more brokers, and back; some are restarted while their clock is wrong."""
        brokers = self._rng.sample(self._site.brokers, self._rng.randint(1, len(self._site.brokers)))
        kills = self._rng.random() < 0.5
        for broker in brokers:
            broker.skew(self._rng.randint(-SKEW_MS, SKEW_MS))
        self._sleep(self._rng.uniform(*DISK_S), left_s)
        if kills:
            self._kill(brokers[:1], left_s)
        for broker in brokers:
            broker.skew(0)
        self._write("healed")

    # -- words

    def _note_hosts(self, what: str, brokers: Sequence[SiteBroker]) -> None:
        self._write(what, [broker.host_name for broker in brokers])

    def _write(self, what: str, value: object = None) -> None:
        self._note(Event(NEMESIS, time.monotonic_ns(), INFO, what, value))

    @staticmethod
    def _sleep(wanted_s: float, left_s: float) -> None:
        time.sleep(max(0.0, min(wanted_s, left_s)))


@contextmanager
def slow_flushes(pid: int) -> Iterator[None]:
    """Delay every flush of a process, by tracing it."""
    calls = "fsync,fdatasync"
    inject = f"inject={calls}:delay_enter={SYNC_DELAY_US}"
    words = ["strace", "-f", "-p", str(pid), "-o", "/dev/null", "-e", f"trace={calls}", "-e", inject]
    tracer = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        tracer.terminate()
        tracer.wait(TRACE_S_MAX)
