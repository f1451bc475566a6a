"""Faults of a cluster while the load runs: of brokers, the controller, the metadata store, the network, disks, clocks.

One at a time, healed before the next one, except that a broker may be killed while the network is cut. Which ones come,
and how long they last, follows from the seed; only what the machine does meanwhile does not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

from checker.faults import disks, network, processes
from checker.faults.scene import Scene
from checker.history import Event
from checker.site import CLOCK, DISK, DISK_ERRORS, MEMBERS, NETWORK, STORE, TRACE, Site

CALM_S = (0.5, 2.0)

Fault = Callable[[Scene, float], None]

FAULTS: dict[str, tuple[str, Fault]] = {
    "kill-broker": ("", lambda scene, left_s: scene.kill([scene.any()], left_s)),
    "kill-leader": ("", lambda scene, left_s: scene.kill([scene.leader()], left_s)),
    "kill-follower": ("", lambda scene, left_s: scene.kill([scene.follower()], left_s)),
    "kill-controller": ("", lambda scene, left_s: scene.kill([scene.controller()], left_s)),
    "kill-coordinator": ("", lambda scene, left_s: scene.kill([scene.coordinator()], left_s)),
    "kill-minority": ("", lambda scene, left_s: scene.kill(scene.some(scene.minority), left_s)),
    "kill-two": ("", lambda scene, left_s: scene.kill(scene.rng.sample(scene.site.brokers, 2), left_s)),
    "kill-all": ("", processes.kill_all),
    "stop-broker": ("", processes.stop),
    "rolling-restart": ("", processes.rolling_restart),
    "pause-broker": ("", lambda scene, left_s: processes.pause_broker(scene, scene.any(), left_s)),
    "pause-leader": ("", lambda scene, left_s: processes.pause_broker(scene, scene.leader(), left_s)),
    "pause-controller": ("", lambda scene, left_s: processes.pause_broker(scene, scene.controller(), left_s)),
    "kill-store": (STORE, processes.kill_one_of_store),
    "pause-store": (STORE, processes.pause_store),
    "kill-majority": (STORE, processes.kill_majority_of_store),
    "restart-all": (STORE, processes.restart_all),
    "cut-brokers": (NETWORK, partial(network.cut_brokers, both_ways=True)),
    "cut-one-way": (NETWORK, partial(network.cut_brokers, both_ways=False)),
    "cut-clients": (NETWORK, partial(network.cut_clients, both_ways=True)),
    "cut-clients-one-way": (NETWORK, partial(network.cut_clients, both_ways=False)),
    "split-brokers": (NETWORK, network.split_brokers),
    "isolate-broker": (NETWORK, network.isolate_broker),
    "isolate-leader": (NETWORK, network.isolate_leader),
    "strand-follower": (NETWORK, network.strand_follower),
    "cut-store": (f"{NETWORK},{STORE}", partial(network.cut_store, both_ways=True)),
    "cut-store-one-way": (f"{NETWORK},{STORE}", partial(network.cut_store, both_ways=False)),
    "cut-member": (MEMBERS, network.cut_member),
    "full-disk": (DISK, disks.fill_disk),
    "read-only-disk": (DISK_ERRORS, disks.make_disk_read_only),
    "slow-disk": (TRACE, disks.slow_disk),
    "failing-disk": (TRACE, disks.fail_disk),
    "clock-jump": (CLOCK, disks.move_clocks),
}
"""Each fault with the parts of the site that it needs."""
CLUSTER_FAULTS = tuple(FAULTS)


def needs(fault: str) -> list[str]:
    return list(filter(None, FAULTS[fault][0].split(",")))


class ClusterNemesis:
    """Deals all faults that were asked for from a shuffled deck, then shuffles again."""

    def __init__(
        self, site: Site, faults: Sequence[str], keys: int, rng: random.Random, note: Callable[[Event], None]
    ) -> None:
        self._rng = rng
        self._scene = Scene(site, keys, rng, note)
        self._faults = [fault for fault in faults if all(site.has(part) for part in needs(fault))]
        self._deck: list[str] = []

    def turn(self, left_s: float) -> None:
        """A calm while, then one fault, healed before this returns."""
        self._scene.sleep(self._rng.uniform(*CALM_S), left_s)
        if not self._faults:
            return
        if not self._deck:
            self._deck = self._rng.sample(self._faults, len(self._faults))
        fault = self._deck.pop()
        self._scene.write(fault)
        FAULTS[fault][1](self._scene, left_s)
