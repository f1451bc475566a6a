"""Start of five brokers, their cost while idle, a restart with 10,000 partitions, and the death of the controller.

Brokers, coordinator and the command share both CPUs. Sums of CPU time are beside the times: on a machine with other
work, they say what an idle one would need.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from bench.cluster import ClusterProcess, RunningBroker, stopped_cluster
from bench.figures import Figure, at_most, figure
from bench.session import Session
from penstock.apps.bench.harness.frames import make_batch, produce_frame
from penstock.apps.bench.harness.link import UnexpectedResponse
from penstock.apps.bench.harness.loader import Loader
from penstock.apps.bench.harness.process import cpu_clock_s, resident_bytes

BROKERS = 5
PARTITIONS = 10
TOPICS_PER_REQUEST = 50
READY_S_MAX = 4.0
RESTART_S_MAX = 15.0
TAKEOVER_S_MAX = 3.0
IDLE_MB_MAX = 55.0
IDLE_CPU_MAX = 1.0
SETTLE_S = 2.0
"""After a start brokers look at each other and at their logs once."""
POLL_S = 0.01
TAKEOVER_WAIT_S = 60.0


def measure(session: Session) -> list[Figure]:
    return [*_measure_starts(session), *_measure_partitions(session)]


def _measure_starts(session: Session) -> list[Figure]:
    readies: list[float] = []
    costs: list[float] = []
    memory: list[float] = []
    idle: list[float] = []
    for _ in range(session.pick(5, 2)):
        session.step(f"start of {BROKERS} brokers, and their idle cost")
        with _cluster(session) as cluster:
            readies.append(cluster.start() / 1000)
            costs.append(cluster.cpu_of_all_s())
            time.sleep(SETTLE_S)
            watched_s, before = session.pick(15.0, 5.0), [cpu_clock_s(one.pid) for one in cluster.brokers]
            time.sleep(watched_s)
            for one, earlier_s in zip(cluster.brokers, before, strict=True):
                idle.append((cpu_clock_s(one.pid) - earlier_s) / watched_s * 100)
                memory.append(resident_bytes(one.pid) / 1e6)
    cost = figure("cost", "s", costs, "").value
    reference = f"{cost:.1f} s of CPU, with coordinator and command"
    watched = f"{BROKERS} brokers, all doors, no clients"
    return [
        figure(f"{BROKERS} brokers ready", "s", readies, reference, at_most(READY_S_MAX)),
        figure("memory of an idle broker of them", "MB", memory, watched, at_most(IDLE_MB_MAX)),
        figure("CPU of an idle broker of them", "%", idle, watched, at_most(IDLE_CPU_MAX)),
    ]


def _measure_partitions(session: Session) -> list[Figure]:
    topics = [f"t{number:04d}" for number in range(session.pick(1_000, 100))]
    total = len(topics) * PARTITIONS
    name = f"{total:,} partitions over {BROKERS} brokers"
    with _cluster(session, durability="os", default_partitions=PARTITIONS) as cluster:
        cluster.start()
        session.step(f"create {len(topics):,} topics × {PARTITIONS}")
        created_s = _timed(lambda: _create(cluster, topics))
        _write_all(cluster, topics, 1)
        restarts: list[float] = []
        written: list[float] = []
        costs: list[float] = []
        for turn in range(session.pick(3, 1)):
            session.step(f"restart with {total:,} partitions")
            cluster.stop()
            started_s = time.perf_counter()
            cluster.start()
            _await_led(cluster, topics)
            restarts.append(time.perf_counter() - started_s)
            costs.append(cluster.cpu_of_all_s())
            _write_all(cluster, topics, turn + 2)
            written.append(time.perf_counter() - started_s)
        session.step("kill -9 of the controller")
        takeovers = [_take_over_s(cluster) for _ in range(session.pick(3, 1))]
    cost = figure("cost", "s", costs, "").value
    return [
        figure(f"{name}: creating them", "s", [created_s], f"{created_s / total * 1e6:.0f} µs each"),
        figure(
            f"{name}: restart until all are led",
            "s",
            restarts,
            f"{cost:.1f} s of CPU of all processes",
            at_most(RESTART_S_MAX),
        ),
        figure(f"{name}: restart until each has a new record", "s", written, "one client, one by one"),
        figure(
            "kill -9 of the controller until another broker is",
            "s",
            takeovers,
            f"with {total:,} partitions",
            at_most(TAKEOVER_S_MAX),
        ),
    ]


def _cluster(session: Session, **flags: str | int) -> AbstractContextManager[ClusterProcess]:
    return stopped_cluster(session, BROKERS, session.cpus.server, session.cpus.loader, **flags)


def _timed(act: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    act()
    return time.perf_counter() - started_s


def _batches(topics: list[str]) -> list[list[str]]:
    return [topics[at : at + TOPICS_PER_REQUEST] for at in range(0, len(topics), TOPICS_PER_REQUEST)]


def _create(cluster: ClusterProcess, topics: list[str]) -> None:
    with Loader(cluster.brokers[0].address) as loader:
        for some in _batches(topics):
            loader.leaders(some)


def _await_led(cluster: ClusterProcess, topics: list[str]) -> None:
    """Every broker says that every partition has a leader."""
    for broker in cluster.brokers:
        with Loader(broker.address) as loader:
            for some in _batches(topics):
                if any(-1 in leaders for leaders in loader.leaders(some).values()):
                    raise UnexpectedResponse("a partition without an error has no leader")


def _write_all(cluster: ClusterProcess, topics: list[str], expected: int) -> None:
    """One record into each partition, and the end of each log."""
    batch = make_batch(1, 100)
    with ExitStack() as stack:
        loaders = {one.node_id: stack.enter_context(Loader(one.address)) for one in cluster.brokers}
        for some in _batches(topics):
            for topic, leaders in loaders[1].leaders(some).items():
                for index, leader in enumerate(leaders):
                    loaders[leader].produce(produce_frame(topic, batch, [index]))
        for topic, leaders in loaders[1].leaders(topics[-1:]).items():
            for index, leader in enumerate(leaders):
                (end,) = loaders[leader].end_offsets(topic, range(index, index + 1))
                if end != expected:
                    raise UnexpectedResponse(f"{topic}-{index} ends at {end} instead of {expected}")


def _take_over_s(cluster: ClusterProcess) -> float:
    """Seconds from the death of the controller until the other brokers name another one."""
    before = _controller(cluster.brokers[0])
    others = [one for one in cluster.brokers if one.node_id != before]
    os.kill(cluster.brokers[before - 1].pid, signal.SIGKILL)
    started_s = time.perf_counter()
    while {_controller(one) for one in others} & {before, -1}:
        if time.perf_counter() - started_s > TAKEOVER_WAIT_S:
            raise UnexpectedResponse("no broker became the controller")
        time.sleep(POLL_S)
    took_s = time.perf_counter() - started_s
    cluster.await_restart(before)
    return took_s


def _controller(broker: RunningBroker) -> int:
    with Loader(broker.address) as loader:
        return loader.controller()
