"""Directed scenes of followers: what few seeds of the simulated cluster come to, played on purpose, and watched.

Each scene holds with the brokers as they are. `test_copy_bugs` plants the bug that it is made for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.core.errors import NotLeader
from penstock.core.machines.cluster.election import ElectionKind
from penstock.core.machines.cluster.partition_state import decide_elect
from penstock.core.model import NewRecord, PartitionId
from penstock.core.records.batch import decode_header, encode_header
from penstock.core.replication.fetches import ReplicatedBatches
from penstock.node.replicas import fetcher
from penstock.node.replicas.fetcher import ReplicaFetcher
from sim import cluster_store
from sim.cluster_machines import State
from sim.kafka_client import make_batch
from sim.move_stage import TOPIC, MoveStage, on_stage, stored, values_of

VALUES = [b"value-%03d" % number for number in range(40)]
ALL = (1, 2, 3)
LAG_MS = 2_000
PRODUCER_ID, EXPIRY_MS = 5, 3_600_000

Tamper = Callable[[memoryview], bytes]


async def create(stage: MoveStage, topic: str = TOPIC, replicas: Sequence[int] = ALL) -> None:
    settings = {"min_insync_replicas": "2", "retention_ms": "-1", "segment_bytes": "1024"}
    await stage.create(replicas, topic=topic, **settings)


async def until_equal(stage: MoveStage) -> None:
    """All are in sync in one epoch, and have the same bytes, all of them committed."""

    def are_equal() -> bool:
        if set(stage.placed().isr) != set(ALL) or not all(stage.machines[one].broker for one in ALL):
            return False
        held = [stage.partition(one) for one in ALL]
        offsets = {offset for one in held for offset in (one.end_offset, one.high_watermark)}
        return len(offsets) == 1 == len({one.leader_epoch for one in held})

    await stage.until(are_equal)
    copies = [stored(stage.partition(one)) for one in ALL]
    assert copies[0] == copies[1] == copies[2]


async def elect(stage: MoveStage, *replicas: int) -> None:
    """Let the first of these lead; they hold the partition already."""
    await stage.move(*replicas)
    place = PartitionId(stage.anyone.catalog.topic(TOPIC).id, 0)
    if stage.placed().leader != replicas[0]:
        await stage.change(lambda catalog: decide_elect(catalog.cluster, place, ElectionKind.PREFERRED))
    await stage.until(lambda: stage.placed().leader == replicas[0] and stage.partition(replicas[0]).is_leader)


# -- epochs


async def leader_there_and_back(stage: MoveStage) -> None:
    """Broker 3 stands still over two elections, and follows the same leader afterwards: not the same log."""
    await create(stage)
    await stage.write(*VALUES[:5])
    await until_equal(stage)
    stage.loop.net.cut("node-2", "node-1")
    stage.append(1, VALUES[5])
    await stage.until(lambda: stage.partition(3).end_offset == 6)
    stage.machines[3].pause()
    stage.machines[1].kill()
    await stage.until(lambda: stage.placed().leader == 2)
    stage.loop.net.heal()
    await stage.write(VALUES[6])
    stage.machines[2].restart_s = lambda: 20.0
    stage.machines[2].kill()
    await stage.until(lambda: stage.placed().leader == 1)
    stage.machines[3].resume()
    await until_equal(stage)
    assert VALUES[5] not in values_of(stage.partition(3))


async def answer_over_elections(stage: MoveStage) -> None:
    """A leader tells broker 3 to truncate. The answer takes until 3 has followed another one, and follows it again."""
    await create(stage)
    for topic, replicas in (
        ("more", (1, 2, 3)),
        ("others", (2, 1, 3)),
    ):  # the fetchers of broker 3 stay at work
        await create(stage, topic, replicas)
    await elect(stage, 3, 1, 2)
    await stage.write(*VALUES[:5])
    await until_equal(stage)
    for one in (1, 2):
        stage.machines[one].pause()
    stage.append(3, VALUES[5])
    with withheld() as answers:
        stage.machines[3].kill()
        for one in (1, 2):
            stage.machines[one].resume()
        await stage.until(lambda: bool(answers))
    leader = stage.placed().leader
    other = 3 - leader
    await stage.write(*VALUES[6:10])
    await elect(stage, other, leader, 3)
    await until_equal(stage)
    await elect(stage, leader, other, 3)
    await until_equal(stage)
    for arrive in answers:
        stage.on_host(3, arrive)
    await stage.write(VALUES[10])
    await until_equal(stage)
    assert values_of(stage.partition(3)) == [*VALUES[:5], *VALUES[6:11]]


@contextmanager
def withheld() -> Iterator[list[Callable[[], None]]]:
    """Keeps the first answer after which a log would be truncated; the caller delivers it."""
    answers: list[Callable[[], None]] = []
    arrive = ReplicaFetcher._arrive

    def keep(self: ReplicaFetcher, flight: Any, outcome: Any) -> None:
        found = [
            one
            for topic in getattr(outcome, "responses", ())
            for one in topic.partitions
            if one.diverging_epoch is not None and one.diverging_epoch.epoch >= 0
        ]
        if found and not answers:
            answers.append(lambda: ReplicaFetcher._arrive(self, flight, outcome))
        else:
            arrive(self, flight, outcome)

    ReplicaFetcher._arrive = keep  # type: ignore[method-assign]
    try:
        yield answers
    finally:
        ReplicaFetcher._arrive = arrive  # type: ignore[method-assign]


# -- answers that are not what the leader sent


def with_a_flipped_bit(records: memoryview) -> bytes:
    changed = bytearray(records)
    changed[decode_header(records).size - 2] ^= 1
    return bytes(changed)


def without_its_first_batch(records: memoryview) -> bytes:
    return bytes(records[decode_header(records).size :])


def from_a_later_epoch(records: memoryview) -> bytes:
    """The epoch of a batch is not covered by its checksum."""
    header = decode_header(records)
    later = encode_header(header._replace(leader_epoch=header.leader_epoch + 9))
    return later + bytes(records[len(later) :])


def damaged_answer(tamper: Tamper) -> Callable[[MoveStage], Any]:
    """One answer of several batches reaches broker 3 changed."""

    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.write(*VALUES[:5])
        await until_equal(stage)
        stage.loop.net.cut("node-3", "node-1")
        stage.append(1, *VALUES[5:10])
        with tampering(stage, tamper) as tampered:
            stage.loop.net.heal()
            await stage.until(lambda: bool(tampered))
            await until_equal(stage)
        assert values_of(stage.partition(3)) == VALUES[:10]

    return play


@contextmanager
def tampering(stage: MoveStage, tamper: Tamper) -> Iterator[list[bytes]]:
    """Changes the first answer with several batches that broker 3 decodes."""
    tampered: list[bytes] = []
    decode = fetcher.decode_replica_fetch  # type: ignore[attr-defined]

    def decode_changed(leader_id: int, response: Any) -> tuple[int, Mapping[PartitionId, ReplicatedBatches]]:
        session_id, answers = decode(leader_id, response)
        changed = dict(answers)
        for place, got in answers.items():
            is_long = len(got.records) > 0 and decode_header(got.records).size < len(got.records)
            if is_long and not tampered and stage.loop.here().name == "node-3":
                tampered.append(tamper(got.records))
                changed[place] = got._replace(records=memoryview(tampered[0]))
        return session_id, changed

    fetcher.decode_replica_fetch = decode_changed  # type: ignore[attr-defined]
    try:
        yield tampered
    finally:
        fetcher.decode_replica_fetch = decode  # type: ignore[attr-defined]


# -- members and producers


async def shrink_without_an_outcome(stage: MoveStage) -> None:
    """Broker 3 falls behind while broker 1 cannot reach the store: 3 may lead after it until the store knows better."""
    await create(stage)
    await stage.write(*VALUES[:5])
    await until_equal(stage)
    leader, tracker = stage.partition(1), stage.partition(1).tracker
    assert tracker is not None
    stage.loop.net.cut("node-3", ["node-1", "node-2"])
    stage.append(1, VALUES[5])
    stage.loop.net.cut("node-1", cluster_store.NAME)
    await stage.until(lambda: tracker.proposed is not None)
    stage.append(1, VALUES[6])
    await stage.until(lambda: getattr(tracker.find(2), "offset", 0) == 7)
    assert leader.is_leader and leader.high_watermark == 5
    stage.loop.net.heal()
    await until_equal(stage)


async def producer_at_a_leader_that_is_replaced(stage: MoveStage) -> None:
    """A record waits for broker 3, which stands still. Once another one leads, its producer hears of it at once."""
    await create(stage)
    await stage.write(*VALUES[:5])
    await until_equal(stage)
    stage.machines[3].pause()
    leader, settled = stage.partition(1), list[object]()
    stage.append(1, VALUES[5])
    stage.on_host(1, leader.when_committed, 6, settled.append)
    await elect(stage, 2, 1, 3)
    await stage.until(lambda: not leader.is_leader)
    assert settled and isinstance(settled[0], NotLeader)
    stage.machines[3].resume()
    await until_equal(stage)


async def producer_that_the_leader_forgot(stage: MoveStage) -> None:
    """A leader whose clock is ahead has forgotten a producer, and takes any sequence; its followers know it still."""
    await create(stage)
    await stage.until(lambda: stage.partition(1).is_leader)
    await until_equal(stage)
    leader = stage.partition(1)

    def append(sequence: int) -> None:
        batch = make_batch([NewRecord(None, VALUES[sequence])], 1, producer_id=PRODUCER_ID, sequence=sequence)
        stage.on_host(1, leader.append, memoryview(bytearray(batch)))

    append(0)
    await until_equal(stage)
    stage.machines[1].machine.clock.skew_ms = 2 * EXPIRY_MS
    await stage.until(lambda: not len(leader.log.producers))
    append(7)
    await until_equal(stage)
    assert values_of(stage.partition(3)) == [VALUES[0], VALUES[7]]


# -- directories


async def replica_left_behind(stage: MoveStage) -> None:
    """A broker finds a replica that metadata places elsewhere, and one of a topic that nobody knows: both stay."""
    await stage.create(1)
    await stage.write(*VALUES[:5])
    files, directory = stage.broker(2).runtime.files, stage.partition(1).log.directory
    unknown = f"topics/{bytes(range(16)).hex()}/0"
    for one in (directory, unknown):
        files.make_dir(one)
        files.write_whole(f"{one}/00000000000000000000.log", b"records")
    stage.machines[2].stop()
    await stage.until(lambda: stage.machines[2].lives == 2 and stage.machines[2].state is State.SERVING)
    files, parent = stage.broker(2).runtime.files, directory.rpartition("/")[0]
    kept = [name for name in files.names(parent) if ".stray-" in name]
    assert len(kept) == 1, "the replica was set aside"
    assert files.read_whole(f"{parent}/{kept[0]}/00000000000000000000.log") == b"records"
    assert files.read_whole(f"{unknown}/00000000000000000000.log") == b"records", "it may be the only copy"


SCENES: dict[str, tuple[Callable[[MoveStage], Any], dict[str, Any]]] = {
    "leader there and back": (leader_there_and_back, {}),
    "answer over elections": (answer_over_elections, {}),
    "flipped bit in an answer": (damaged_answer(with_a_flipped_bit), {}),
    "missing batch in an answer": (damaged_answer(without_its_first_batch), {}),
    "later epoch in an answer": (damaged_answer(from_a_later_epoch), {}),
    "shrink without an outcome": (shrink_without_an_outcome, {"replica_lag_ms": LAG_MS}),
    "producer at a leader that is replaced": (producer_at_a_leader_that_is_replaced, {}),
    "producer that the leader forgot": (producer_that_the_leader_forgot, {"producer_expiry_ms": EXPIRY_MS}),
    "replica left behind": (replica_left_behind, {}),
}
"""Scenes by name, with the settings of their brokers."""


def play(name: str, seed: int = 1) -> None:
    """Play one scene, watched."""
    scene, settings = SCENES[name]
    on_stage(scene, brokers=3, seed=seed, is_watched=True, **settings)
