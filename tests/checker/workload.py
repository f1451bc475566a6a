"""One run: workers on three stacks against brokers, faults in between, everything read at the end, the history judged.

Never waits without a bound, and never calls a run good in which a stack got nothing done or a reader did not catch up.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from checker.analysis import analyse
from checker.capability import missing_calls
from checker.history import (
    COMMITTED,
    DATA,
    DEBUG,
    INFO,
    NEMESIS,
    OK,
    PARTITIONS_PER_TOPIC,
    WORK,
    Event,
    key_of,
    merge,
    operations,
    read_diary,
    topic_of,
    write_history,
)
from checker.nemesis import Nemesis
from checker.plan import Outcome, Plan
from checker.queue import ACCEPTED
from checker.tally import Tally
from checker.workers.__main__ import GROUP, NOT_CAUGHT_UP, PROCESSES_PER_WORKER, QUEUE, Config
from checker.workers.queue import subscription_of
from penstock import BrokerClient
from penstock.testing import Broker

QUEUE_MEMBERS = 3
HOLD_MS = 6_000
DELIVERIES_MAX = 10_000
"""No message is given up because its members or brokers are killed."""
WARM_S_MAX = 20.0
LOOK_S = 0.1
STOP_S_MAX = 45.0
UNREAD = "did not read to the end"
TOPICS_S_MAX = 20.0
ELECTED_S_MAX = 60.0
ENDS_S_MAX = 8.0
COMMITTED_S_MAX = 60.0
"""Longer than a transaction lives: offsets of an open one are not told."""
CRASH_STEP_SHARE = 1 / 400
CALM_S_MAX = 400.0
"""How long a run goes on without faults until it has all its operations."""
FAULTY_MAX = 3
"""Faults go on for so many times the planned seconds at most."""
COUNT_S = 0.5
T = TypeVar("T")
ROOTS = (Path(__file__).resolve().parents[1], Path(__file__).resolve().parents[2] / "src")


@dataclass(slots=True)
class Hand:
    """A worker process and what it was told."""

    config: Config
    process: subprocess.Popen[bytes]
    stderr: Path

    def last_words(self) -> str:
        return self.stderr.read_text(errors="replace")[-2000:]


class Turns(Protocol):
    """What brings faults."""

    def turn(self, left_s: float) -> None: ...


MakeNemesis = Callable[[random.Random, Callable[[Event], None]], Turns]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run needs of the brokers under test."""

    bootstrap: str
    make_nemesis: MakeNemesis
    queue_doors: Sequence[str] = ()
    wrapper_of: Callable[[int], tuple[str, ...]] = lambda _: ()
    """The command that runs the worker of a slot, in a namespace of the network for example."""
    before_reading: Callable[[], None] = lambda: None
    """Happens after the load and before everything is read."""


class Run:
    """The conductor. `home` keeps diaries, the merged history and what workers wrote to their standard error."""

    def __init__(self, plan: Plan, home: Path, surroundings: Surroundings) -> None:
        self._plan = plan
        self._around = surroundings
        self._home = home
        self._bootstrap = surroundings.bootstrap
        self._rng = random.Random(plan.seed)
        self._serial = 0
        self._hands: dict[int, Hand] = {}
        self._stack_of: dict[int, str] = {}
        self._noted: list[Event] = []
        self._tally = Tally(home)
        self.outcome = Outcome(plan)

    def run(self) -> Outcome:
        self.outcome.missing = missing_calls(self._bootstrap.partition(",")[0], self._plan.mode)
        if self.outcome.missing:
            return self.outcome
        self._create_topics()
        try:
            self._load()
            self._around.before_reading()
            self._read_everything()
        except KafkaException as error:
            self.outcome.problems.append(f"the end of the logs or of the group cannot be read: {error}")
        finally:
            for hand in self._hands.values():
                hand.process.kill()
                hand.process.wait()
        self._judge()
        return self.outcome

    def _create_topics(self) -> None:
        topics = sorted({topic_of(key)[0] for key in range(self._plan.keys)})
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        config = {"min.insync.replicas": str(self._plan.min_isr)}
        new = [NewTopic(topic, PARTITIONS_PER_TOPIC, self._plan.rf, config=config) for topic in topics]
        for future in admin.create_topics(new).values():
            future.result(TOPICS_S_MAX)
        if self._plan.mode in ("groups", "txn"):
            self._commit_beginnings()
        if self._plan.mode == "queue":
            host, _, port = self._around.queue_doors[0].rpartition(":")
            with BrokerClient(host, int(port), request_timeout_s=TOPICS_S_MAX) as client:
                for topic in topics:
                    client.create_subscription(
                        subscription_of(topic), topic, hold_ms=HOLD_MS, max_deliveries=DELIVERIES_MAX
                    )

    def _commit_beginnings(self) -> None:
        """Members have no policy for a group without offsets, so that each later reset is an anomaly."""
        places = [TopicPartition(*topic_of(key), 0) for key in range(self._plan.keys)]
        consumer = Consumer({**self._quiet, "group.id": GROUP})
        with contextlib.closing(consumer):
            patiently(lambda: consumer.commit(offsets=places, asynchronous=False))

    def _start(self, slot: int, targets: dict[int, int] | None = None) -> None:
        self._serial += 1
        stack = QUEUE if slot >= self._kafka_slots else self._plan.stacks[slot % len(self._plan.stacks)]
        config = Config(
            stack=stack,
            bootstrap=self._bootstrap,
            diary=str(self._home / f"diary-{self._serial:03}.jsonl"),
            seed=self._plan.seed,
            serial=self._serial,
            slot=slot,
            keys=list(range(self._plan.keys)),
            transactional=self._plan.mode == "txn",
            subscribes=self._plan.subscribes,
            crash_share=CRASH_STEP_SHARE,
            queue_doors=list(self._around.queue_doors),
            targets={str(key): offset for key, offset in (targets or {}).items()},
            final_s_max=self._plan.final_s_max,
        )
        stderr = self._home / f"worker-{self._serial:03}.err"
        path = os.pathsep.join([*map(str, ROOTS), os.environ.get("PYTHONPATH", "")])
        with stderr.open("wb") as sink:
            process = subprocess.Popen(
                [
                    *self._around.wrapper_of(slot),
                    sys.executable,
                    "-m",
                    "checker.workers",
                    json.dumps(asdict(config)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=sink,
                env={**os.environ, "PYTHONPATH": path},
            )
        self._hands[slot] = Hand(config, process, stderr)
        self._stack_of[self._serial] = stack

    def _slots(self) -> range:
        members = QUEUE_MEMBERS if self._plan.mode == "queue" else 0
        return range(self._kafka_slots + members)

    @property
    def _kafka_slots(self) -> int:
        return len(self._plan.stacks) * self._plan.workers_per_stack

    def _load(self) -> None:
        for slot in self._slots():
            self._start(slot)
        self._await_first_acknowledgements()
        # Chances of its own: the same faults follow from the seed, whenever workers happen to be killed.
        nemesis = self._around.make_nemesis(random.Random(f"nemesis {self._plan.seed}"), self.note)
        began_s = time.monotonic()
        crash_s = began_s + self._rng.uniform(0.2, 1.0) * self._plan.crash_s_mean
        while (left_s := self._faulty_s(began_s)) > 0:
            nemesis.turn(left_s)
            self._check_hands()
            if time.monotonic() >= crash_s:
                crash_s = time.monotonic() + self._rng.expovariate(1 / self._plan.crash_s_mean)
                self._crash(self._rng.choice(self._slots()))
        self._await_operations()
        self._stop_all()
        self.outcome.load_ops = self._tally.count()

    def _faulty_s(self, began_s: float) -> float:
        """How long faults go on: as long as planned, and on a slow machine until half of the operations are done."""
        planned_s, passed_s = self._plan.seconds, time.monotonic() - began_s
        if passed_s < planned_s:
            return planned_s - passed_s
        is_slow = self._tally.count() < self._plan.ops_min / 2
        return max(0.0, FAULTY_MAX * planned_s - passed_s) if is_slow else 0.0

    def _await_operations(self) -> None:
        """Without faults, until there are as many as were asked for."""
        deadline_s = time.monotonic() + CALM_S_MAX
        while (count := self._tally.count()) < self._plan.ops_min:
            if time.monotonic() > deadline_s:
                self.outcome.problems.append(f"only {count} of {self._plan.ops_min} operations")
                return
            time.sleep(COUNT_S)
            self._check_hands()

    def _await_first_acknowledgements(self) -> None:
        """Faults begin once every stack is at work; one that never gets there is found idle at the end."""
        deadline_s = time.monotonic() + WARM_S_MAX
        while time.monotonic() < deadline_s:
            rows = by_stack(self._events(), self._stack_of).values()
            if all(row["acked"] for row in rows):
                return
            time.sleep(LOOK_S)

    def note(self, event: Event) -> None:
        self._noted.append(event)
        self.outcome.faults[event.f] = self.outcome.faults.get(event.f, 0) + 1

    def _crash(self, slot: int) -> None:
        """kill -9 of a worker in the middle of whatever it does; another takes its slot."""
        hand = self._hands[slot]
        hand.process.kill()
        hand.process.wait()
        self.note(Event(NEMESIS, time.monotonic_ns(), INFO, "kill-worker", hand.config.serial))
        self._start(slot)

    def _check_hands(self) -> None:
        for slot, hand in self._hands.items():
            code = hand.process.poll()
            if code is not None:
                self._problem(f"worker {hand.config.serial} ({hand.config.stack}) left with {code}", hand)
                self._start(slot)

    def _problem(self, words: str, hand: Hand) -> None:
        self.outcome.problems.append(f"{words}\n{hand.last_words()}".strip())

    def _stop_all(self) -> None:
        for hand in self._hands.values():
            assert hand.process.stdin is not None
            hand.process.stdin.close()
        self._wait_all(STOP_S_MAX, "did not stop")

    def _wait_all(self, s_max: float, reproach: str) -> None:
        deadline_s = time.monotonic() + s_max
        for hand in self._hands.values():
            try:
                code = hand.process.wait(max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                hand.process.send_signal(signal.SIGABRT)
                hand.process.wait()
                self._problem(f"worker {hand.config.serial} ({hand.config.stack}) {reproach}", hand)
            else:
                if code:
                    words = reproach if code == NOT_CAUGHT_UP else f"left with {code}"
                    self._problem(f"worker {hand.config.serial} ({hand.config.stack}) {words}", hand)
        self._hands.clear()

    def _read_everything(self) -> None:
        self._write_ends()
        targets = highest_offsets(self._events())
        if not targets:
            self.outcome.problems.append("nothing was ever acknowledged or read")
            return
        for slot in self._slots():
            self._start(slot, targets)
        self._wait_all(self._plan.final_s_max + STOP_S_MAX, UNREAD)

    def _write_ends(self) -> None:
        """What the broker itself says of its logs, for whoever reads the history."""
        self._noted.append(Event(NEMESIS, time.monotonic_ns(), INFO, DEBUG, patiently(self._ends)))
        if self._plan.mode in ("groups", "txn"):
            committed = patiently(self._committed)
            self._noted.append(Event(NEMESIS, time.monotonic_ns(), INFO, COMMITTED, committed))

    def _ends(self) -> dict[int, tuple[int, int]]:
        """With a client of its own: librdkafka keeps asking a leader that is dead, however often it is called."""
        consumer = Consumer({**self._quiet, "group.id": "checker-ends"})
        with contextlib.closing(consumer):
            return {
                key: consumer.get_watermark_offsets(TopicPartition(*topic_of(key)), timeout=ENDS_S_MAX)
                for key in range(self._plan.keys)
            }

    def _committed(self) -> dict[int, int]:
        """The group's offsets, without those of transactions that are still open."""
        consumer = Consumer({**self._quiet, "group.id": GROUP, "isolation.level": "read_committed"})
        places = [TopicPartition(*topic_of(key)) for key in range(self._plan.keys)]
        with contextlib.closing(consumer):
            found = consumer.committed(places, timeout=COMMITTED_S_MAX)
        return {key_of(one.topic, one.partition): one.offset for one in found}

    @property
    def _quiet(self) -> dict[str, Any]:
        return {"bootstrap.servers": self._bootstrap, "log_level": 0}

    def _events(self) -> list[Event]:
        parts = [read_diary(path) for path in sorted(self._home.glob("diary-*.jsonl"))]
        return merge([*parts, self._noted])

    def _judge(self) -> None:
        events = self._events()
        self.outcome.history = self._home / "history.jsonl"
        write_history(self.outcome.history, events)
        self.outcome.verdict = analyse(events)
        self.outcome.by_stack = by_stack(events, self._stack_of)
        for stack, counts in self.outcome.by_stack.items():
            for what in ("acked", "polled"):
                if not counts[what]:
                    self.outcome.problems.append(f"{stack} {what} nothing")


def patiently(call: Callable[[], T]) -> T:
    """Again while the cluster elects leaders and coordinators; raises KafkaException in the end."""
    deadline_s = time.monotonic() + ELECTED_S_MAX
    while True:
        try:
            return call()
        except KafkaException:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(LOOK_S)


def highest_offsets(events: list[Event]) -> dict[int, int]:
    """The last offset of each key that anybody was told of."""
    highest: dict[int, int] = {}
    for op in operations(events):
        if op.f not in DATA:
            continue
        for key, offset, _ in op.sends if op.type == OK else ():
            if offset is not None:
                highest[key] = max(highest.get(key, 0), offset)
        for key, pairs in op.polls.items():
            highest[key] = max(highest.get(key, 0), max((pair[0] for pair in pairs), default=0))
    return highest


def by_stack(events: list[Event], stack_of: dict[int, str]) -> dict[str, dict[str, int]]:
    """How much each stack got done."""
    counts = {
        stack: {"ops": 0, "acked": 0, "polled": 0, "ok": 0, "info": 0, "fail": 0}
        for stack in stack_of.values()
    }
    for op in operations(events):
        if op.f in WORK:
            row = counts[stack_of[op.process // PROCESSES_PER_WORKER]]
            row["ops"] += 1
            row[op.type] += 1
            if op.type == OK:
                row["acked"] += len(op.sends)
                row["polled"] += sum(len(pairs) for pairs in op.polls.values())
                row["acked"] += sum(one[4] == ACCEPTED for one in op.taken)
                row["polled"] += len(op.taken)
    return counts


def run_against(plan: Plan, home: Path, bootstrap: str) -> Outcome:
    """A run against a broker that somebody else runs: without faults to it."""
    surroundings = Surroundings(bootstrap, lambda rng, note: Nemesis(None, (), rng, note))
    return Run(plan, home, surroundings).run()


def run_with_broker(plan: Plan, home: Path) -> Outcome:
    """A run with a broker of our own, in `home`. A broker that leaves by itself raises BrokerDied."""
    broker = Broker(home / "broker", {})
    broker.home.mkdir(parents=True)
    broker.start()
    with contextlib.closing(broker):
        surroundings = Surroundings(
            broker.bootstrap,
            lambda rng, note: Nemesis(broker, plan.faults, rng, note),
            [f"{broker.host}:{broker.queue_port}"],
        )
        return Run(plan, home, surroundings).run()
