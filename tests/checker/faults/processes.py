"""Brokers and the metadata store: killed, paused, restarted."""

from __future__ import annotations

from collections.abc import Sequence

from checker.faults.scene import DOWN_S, LONG_DOWN_S, LONG_DOWN_SHARE, Scene
from checker.site import STOP_S_MAX, SiteBroker, pause, resume

PAUSED_S = (2.0, 15.0, 3.0)
"""Least, most and most frequent duration of a pause."""
KILL_TOO_SHARE = 1 / 3


def stop(scene: Scene, left_s: float) -> None:
    """A clean restart."""
    restart(scene, scene.any(), left_s)


def rolling_restart(scene: Scene, left_s: float) -> None:
    """All brokers, one after the other, as in an upgrade."""
    for broker in scene.rng.sample(scene.site.brokers, len(scene.site.brokers)):
        restart(scene, broker, left_s)


def restart(scene: Scene, broker: SiteBroker, left_s: float) -> None:
    down_s = scene.rng.uniform(*DOWN_S)
    broker.stop(STOP_S_MAX)
    scene.note_hosts("stopped", [broker])
    scene.sleep(down_s, left_s)
    scene.start([broker])


def pause_broker(scene: Scene, broker: SiteBroker, left_s: float) -> None:
    lasts_s = scene.rng.triangular(*PAUSED_S)
    pause(broker)
    scene.note_hosts("paused", [broker])
    try:
        scene.sleep(lasts_s, left_s)
    finally:
        resume(broker)
        scene.note_hosts("resumed", [broker])


def kill_all(scene: Scene, left_s: float) -> None:
    """All brokers at once; the store stays."""
    scene.kill(scene.site.brokers, left_s)


def restart_all(scene: Scene, left_s: float) -> None:
    """kill -9 of everything, in any order."""
    site, down_s = scene.site, scene.rng.uniform(*DOWN_S)
    brokers = scene.rng.sample(site.brokers, len(site.brokers))
    store_dies_first = scene.rng.random() < 0.5
    if store_dies_first:
        site.store.kill(site.store.hosts)
    for broker in brokers:
        broker.kill()
    if not store_dies_first:
        site.store.kill(site.store.hosts)
    scene.note_hosts("killed", brokers)
    scene.write("killed", list(site.store.hosts))
    scene.sleep(down_s, left_s)
    site.store.start(site.store.hosts)
    scene.start(brokers)


def kill_store(scene: Scene, hosts: Sequence[str], left_s: float) -> None:
    is_long = scene.rng.random() < LONG_DOWN_SHARE
    kills, victim = scene.rng.random() < KILL_TOO_SHARE, scene.any()
    scene.site.store.kill(hosts)
    scene.write("killed", list(hosts))
    if kills:
        scene.relaunch(victim)
    scene.sleep(scene.rng.uniform(*(LONG_DOWN_S if is_long else DOWN_S)), left_s)
    scene.site.store.start(hosts)
    scene.write("started", list(hosts))
    if kills:
        scene.await_ready(victim)


def kill_one_of_store(scene: Scene, left_s: float) -> None:
    kill_store(scene, scene.rng.sample(scene.site.store.hosts, 1), left_s)


def kill_majority_of_store(scene: Scene, left_s: float) -> None:
    hosts = scene.site.store.hosts
    kill_store(scene, scene.rng.sample(hosts, len(hosts) // 2 + 1), left_s)


def pause_store(scene: Scene, left_s: float) -> None:
    host = scene.rng.choice(scene.site.store.hosts)
    lasts_s = scene.rng.triangular(*PAUSED_S)
    scene.site.store.pause(host)
    scene.write("paused", [host])
    try:
        scene.sleep(lasts_s, left_s)
    finally:
        scene.site.store.resume(host)
        scene.write("resumed", [host])
