"""Cut networks, both ways or one way: between brokers, to the store, within it, and between clients and brokers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from checker.faults.scene import LONG_DOWN_S, Scene
from checker.site import CLIENT_HOSTS, SiteBroker

CUT_S = (2.0, 9.0)
KILL_IN_CUT_SHARE = 1 / 3
STRANDED_S = (5.0, 8.0)
"""Long enough for a replica to leave the ISR."""

Cut = tuple[str, str]


def cut_brokers(scene: Scene, left_s: float, *, both_ways: bool) -> None:
    """Between two brokers."""
    one, other = scene.rng.sample([broker.host_name for broker in scene.site.brokers], 2)
    _cut(scene, _both(one, [other]) if both_ways else [(one, other)], scene.any(), left_s)


def isolate_broker(scene: Scene, left_s: float) -> None:
    """One broker hears nobody but clients, and only they hear it."""
    chosen = scene.any()
    _cut(scene, _both(chosen.host_name, [*_others(scene, chosen), *scene.site.store.hosts]), chosen, left_s)


def isolate_leader(scene: Scene, left_s: float) -> None:
    """A leader does not hear its followers, but clients and the store: alone it must not acknowledge anything."""
    chosen = scene.leader()
    _cut(scene, _both(chosen.host_name, _others(scene, chosen)), chosen, left_s)


def split_brokers(scene: Scene, left_s: float) -> None:
    """A minority of the brokers and the others do not hear each other."""
    few = scene.some(scene.minority)
    names = [broker.host_name for broker in few]
    rest = [broker.host_name for broker in scene.site.brokers if broker not in few]
    _cut(scene, [cut for name in names for cut in _both(name, rest)], scene.rng.choice(few), left_s)


def strand_follower(scene: Scene, left_s: float) -> None:
    """A broker misses what the others acknowledge; then all of them die, and it is the only one left for a while."""
    chosen, lasts_s = scene.any(), scene.rng.uniform(*STRANDED_S)
    others = [broker for broker in scene.site.brokers if broker is not chosen]
    network = scene.site.network
    assert network is not None
    cuts = _both(chosen.host_name, _others(scene, chosen))
    for source, target in cuts:
        network.cut(source, target)
    scene.write("cut", [list(cut) for cut in cuts])
    try:
        scene.sleep(lasts_s, left_s)
        for broker in others:
            broker.kill()
        scene.note_hosts("killed", others)
    finally:
        network.heal()
        scene.write("healed")
    scene.sleep(scene.rng.uniform(*LONG_DOWN_S), left_s)
    scene.start(others)


def cut_store(scene: Scene, left_s: float, *, both_ways: bool) -> None:
    """Between some brokers and the store: all of its members, so that nobody can take a detour."""
    brokers = scene.some(len(scene.site.brokers))
    pairs = [(broker.host_name, host) for broker in brokers for host in scene.site.store.hosts]
    _cut(scene, _directed(scene, pairs, both_ways), scene.any(), left_s)


def cut_member(scene: Scene, left_s: float) -> None:
    """One member of the store and the others do not hear each other; brokers reach all of them."""
    chosen = scene.rng.choice(scene.site.store.hosts)
    others = [host for host in scene.site.store.hosts if host != chosen]
    _cut(scene, _both(chosen, others), scene.any(), left_s)


def cut_clients(scene: Scene, left_s: float, *, both_ways: bool) -> None:
    """Between some clients and some brokers."""
    clients = scene.rng.sample(CLIENT_HOSTS, scene.rng.randint(1, len(CLIENT_HOSTS)))
    brokers = scene.some(len(scene.site.brokers) - 1)
    pairs = [(client, broker.host_name) for client in clients for broker in brokers]
    _cut(scene, _directed(scene, pairs, both_ways), scene.any(), left_s)


def _both(one: str, others: Iterable[str]) -> list[Cut]:
    return [cut for other in others for cut in ((one, other), (other, one))]


def _directed(scene: Scene, pairs: Sequence[Cut], both_ways: bool) -> list[Cut]:
    is_outward = scene.rng.random() < 0.5
    outward = list(pairs) if both_ways or is_outward else []
    inward = [(other, one) for one, other in pairs] if both_ways or not is_outward else []
    return outward + inward


def _others(scene: Scene, chosen: SiteBroker) -> list[str]:
    return [broker.host_name for broker in scene.site.brokers if broker is not chosen]


def _cut(scene: Scene, cuts: Sequence[Cut], victim: SiteBroker, left_s: float) -> None:
    """Sometimes the victim is killed meanwhile: what a cut changed has to survive that."""
    network = scene.site.network
    assert network is not None
    lasts_s, kills = scene.rng.uniform(*CUT_S), scene.rng.random() < KILL_IN_CUT_SHARE
    until_s = time.monotonic() + min(lasts_s, left_s)
    for source, target in cuts:
        network.cut(source, target)
    scene.write("cut", [list(cut) for cut in cuts])
    try:
        scene.sleep(lasts_s / 2, left_s / 2)
        if kills:
            scene.relaunch(victim)
        scene.sleep(until_s - time.monotonic(), left_s)
    finally:
        network.heal()
        scene.write("healed")
    if kills:
        scene.await_ready(victim)
