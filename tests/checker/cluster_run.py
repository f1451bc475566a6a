"""One run against a cluster of our own: its processes, faults to all of them, and changes of topics and replicas."""

from __future__ import annotations

import errno
import os
import random
from contextlib import ExitStack
from pathlib import Path

from checker.agreement import replica_problems
from checker.churn import TopicChurn
from checker.cluster_nemesis import ClusterNemesis
from checker.faults.scene import Scene
from checker.history import topic_of
from checker.kafka_site import KafkaSite
from checker.mover import Mover
from checker.plan import KAFKA, Outcome, Plan
from checker.sight import Changes
from checker.site import PenstockSite, Site
from checker.workload import Run, Surroundings
from penstock.testing import BrokerDied

BROKEN_DISKS = ("failing-disk", "read-only-disk")
EXCUSES = (os.strerror(errno.EIO), os.strerror(errno.EROFS))
"""Errors of broken disks, which brokers report as failures, and should."""


def site_of(plan: Plan, home: Path) -> Site:
    if plan.peer == KAFKA:
        return KafkaSite(home, plan.nodes, plan.rf, plan.min_isr)
    return PenstockSite(home, plan.nodes, plan.store, plan.rf)


def run_with_cluster(plan: Plan, home: Path) -> Outcome:
    """A run with a cluster of our own, in `home`. Brokers that leave by themselves or fail inside are a problem."""
    site = site_of(plan, home)
    outcome = Outcome(plan)
    try:
        with site:
            outcome = ClusterRun(plan, home, site).run()
    except BrokerDied as death:
        outcome.problems.append(str(death))
    outcome.lacks = site.lacks
    excuses = EXCUSES if any(outcome.faults.get(fault) for fault in BROKEN_DISKS) else ()
    for broker in site.brokers:
        outcome.problems += [
            f"{broker.host_name}: {line}"
            for line in broker.output().splitlines()
            if any(word in line for word in site.failures) and not any(error in line for error in excuses)
        ]
    return outcome


class ClusterRun:
    """Topics come and go meanwhile; by the seed, replicas move, and everything is read while a broker is down."""

    def __init__(self, plan: Plan, home: Path, site: Site) -> None:
        self._plan = plan
        self._site = site
        self._run = Run(
            plan,
            home,
            Surroundings(
                site.bootstrap,
                lambda rng, note: ClusterNemesis(site, plan.faults, plan.keys, rng, note),
                site.queue_doors,
                site.client_wrapper,
                self._before_reading,
            ),
        )
        self._topics = sorted({topic_of(key)[0] for key in range(plan.keys)})
        self._churn = TopicChurn([broker.bootstrap for broker in site.brokers], plan.seed, plan.rf)
        self._mover = Mover(site.bootstrap, self._topics, plan.nodes, plan.seed)
        self._changes = Changes(site.bootstrap)
        self._at_work = ExitStack()
        rng = random.Random(f"dead {plan.seed}")
        self._dead = rng.sample(site.brokers, plan.dead)
        self._scene = Scene(site, plan.keys, rng, self._run.note)

    def run(self) -> Outcome:
        helpers: list[Changes | TopicChurn | Mover] = [
            self._changes,
            self._churn,
            *([self._mover] if self._plan.moves else []),
        ]
        with self._at_work:
            for one in helpers:
                one.start()
                self._at_work.callback(one.stop)
            outcome = self._run.run()
        if self._dead:
            self._scene.start([broker for broker in self._dead if not broker.is_running])
        outcome.problems += [*self._churn.problems(), *self._mover.problems()]
        outcome.problems += replica_problems(self._site, self._topics)
        outcome.topic_changes = self._churn.done
        outcome.moves, outcome.elections = self._mover.started, self._mover.elected
        outcome.leader_changes = self._changes.leader_changes
        outcome.isr_changes = self._changes.isr_changes
        return outcome

    def _before_reading(self) -> None:
        """Nothing changes any more; brokers that the replicas can spare die for good."""
        self._churn.stop()
        self._mover.stop()
        for broker in self._dead:
            broker.kill()
        if self._dead:
            self._scene.note_hosts("dead-at-the-end", self._dead)
