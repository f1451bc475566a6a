"""One run against a cluster of our own: its processes, faults to all of them, and changes of topics and places."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from checker.churn import TopicChurn
from checker.cluster_nemesis import ClusterNemesis
from checker.history import topic_of
from checker.mover import Mover
from checker.site import Site
from checker.workload import Outcome, Plan, Run
from penstock.testing import BrokerDied

FAILURES = ("CRITICAL", "Traceback (most recent call last)")
"""Words in the log of a broker that no fault excuses."""


def run_with_cluster(plan: Plan, home: Path) -> Outcome:
    """A run with a cluster of our own, in `home`. Brokers that leave by themselves or fail inside are a problem."""
    site = Site(home, plan.nodes, plan.store)
    outcome = Outcome(plan)
    try:
        with site:
            run = Run(
                plan,
                home,
                site.bootstrap,
                lambda rng, note: ClusterNemesis(site, plan.faults, rng, note),
                [f"{broker.host}:{broker.queue_port}" for broker in site.brokers],
            )
            outcome = run.outcome
            _run_with_changes(run, plan, site)
    except BrokerDied as death:
        outcome.problems.append(str(death))
    outcome.lacks = site.lacks
    for broker in site.brokers:
        outcome.problems += [
            f"{broker.host_name}: {line}"
            for line in broker.output().splitlines()
            if any(word in line for word in FAILURES)
        ]
    return outcome


def _run_with_changes(run: Run, plan: Plan, site: Site) -> None:
    """Topics come and go meanwhile; by the seed, partitions move."""
    topics = sorted({topic_of(key)[0] for key in range(plan.keys)})
    churn = TopicChurn([broker.bootstrap for broker in site.brokers], plan.seed)
    mover = Mover(site.bootstrap, topics, plan.nodes, plan.seed)
    with ExitStack() as stack:
        for one in (churn, mover) if plan.moves else (churn,):
            one.start()
            stack.callback(one.stop)
        run.run()
    run.outcome.problems += [*churn.problems(), *mover.problems()]
    run.outcome.topic_changes, run.outcome.moves = churn.done, mover.started
