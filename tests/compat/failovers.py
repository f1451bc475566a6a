"""Every client at work on one cluster whose brokers are killed, restarted and given other partitions. Never knows what
is right: test_failover does.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from checker.mover import elect
from checker.sight import PartitionView, view
from compat.fact_process import FactProcess, program_command
from compat.members import AUTO, NONE, Member, Place, Troop
from compat.roster import KAFKAJS
from compat.vocabulary import WAIT_S
from conditions import until
from e2e.cluster_up import LocalUp
from e2e.move_clients import commit_start, ongoing, raw_cluster, reassign
from penstock.client.errors import ClientError
from penstock.wire.kafka import ErrorCode

BROKERS = 3
PARTITIONS = 3
KEYS = 16
PACE_S = 0.04
GOES_ON_RECORDS = 40
"""A client works again when it has written and read so many more records."""
SESSION_MS = 30_000
INTERNAL = "__consumer_offsets"


class ClientWriter(FactProcess):
    """A producer. It notes what is acknowledged, and the longest time without."""

    def __init__(self, client: str, bootstrap: str, topic: str, changed: threading.Condition) -> None:
        self.acked: dict[int, tuple[int, int]] = {}
        """Number of a record → its partition and offset."""
        self.ends: dict[int, int] = {}
        self.pause_s_max = 0.0
        self._acked_s = time.monotonic()
        options = {"topic": topic, "keys": KEYS, "pace_s": PACE_S}
        super().__init__(program_command("writer", client, bootstrap, options), changed)

    def note(self, fact: dict[str, Any]) -> None:
        if "acked" not in fact:
            super().note(fact)
            return
        partition, offset, number = fact["acked"]
        now_s = time.monotonic()
        if self.acked:
            self.pause_s_max = max(self.pause_s_max, now_s - self._acked_s)
        self._acked_s = now_s
        self.acked[number] = partition, offset
        self.ends[partition] = max(offset + 1, self.ends.get(partition, 0))


class Traveller:
    """One client: a producer, a member of a group and, if it can, a reader with positions of its own."""

    def __init__(self, client: str, bootstrap: str) -> None:
        self.client = client
        self.topic = f"failover-{client}"
        self.problem: str | None = None
        """Why it did not go on."""
        self._places: list[Place] = [(self.topic, partition) for partition in range(PARTITIONS)]
        commit_start(bootstrap, self.topic, self.topic, PARTITIONS)
        self.troop = Troop(
            bootstrap, self.topic, self._places, reset=NONE, commit=AUTO, session_ms=SESSION_MS
        )
        self.writer = ClientWriter(client, bootstrap, self.topic, self.troop.changed)
        self.group_reader = self.troop.add(client)
        self.own_reader: Member | None = None
        if client != KAFKAJS:  # which reads in groups only
            self.own_reader = self.troop.add(client, assigned=self._places)

    @property
    def readers(self) -> list[Member]:
        return self.troop.members

    def await_more(self) -> None:
        """Wait until it has written to every partition and has read that, unless it has failed before."""
        before, ends = len(self.writer.acked), dict(self.writer.ends)

        def has_written() -> bool:
            assert not self.writer.failed, self.writer.failed
            return len(self.writer.acked) >= before + GOES_ON_RECORDS and all(
                self.writer.ends.get(one, 0) > ends.get(one, 0) for one in range(PARTITIONS)
            )

        def go_on() -> None:
            self.troop.until("records are acknowledged in every partition", has_written)
            self._await_read()

        self._attempt(go_on)

    def finish(self) -> None:
        """Stop writing, read the rest."""

        def finish() -> None:
            self.writer.leave()
            self._await_read()
            for reader in self.readers:
                reader.leave()

        self._attempt(finish)
        self.close()

    def _await_read(self) -> None:
        ends = {(self.topic, one): end for one, end in self.writer.ends.items()}

        def has_read(reader: Member) -> bool:
            return all(reader.ends.get(place, 0) >= end for place, end in ends.items())

        self.troop.until("everything acknowledged is read", lambda: all(map(has_read, self.readers)))

    def _attempt(self, act: Callable[[], None]) -> None:
        """The others go on without a client that does not."""
        if self.problem is not None:
            return
        try:
            act()
        except Exception as error:  # noqa: BLE001 - raised again by the test of this client
            self.problem = f"{type(error).__name__}: {error}"

    def close(self) -> None:
        for one in (self.writer, *self.readers):
            if one.is_running:
                one.kill()

    def __str__(self) -> str:
        return (
            f"{self.client}: {len(self.writer.acked)} records, longest pause {self.writer.pause_s_max:.2f} s"
        )


class Voyage:
    """All clients on one cluster, and what happens to its brokers."""

    def __init__(self, up: LocalUp, clients: list[str]) -> None:
        self._up = up
        bootstrap: str = up.ready["bootstrap"]
        self._raw = raw_cluster(bootstrap)
        topics = [f"failover-{client}" for client in clients]
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for created in admin.create_topics([NewTopic(one, PARTITIONS, BROKERS) for one in topics]).values():
            created.result(WAIT_S)
        self._topics = topics
        self.travellers = [Traveller(client, bootstrap) for client in clients]
        self._settle()

    def run(self, rounds: int) -> None:
        """Every event in turn, again and again; clients work after each."""
        for _ in range(rounds):
            self.kill_leader()
            self.restart_brokers()
            self.reassign()
        for one in self.travellers:
            one.finish()
            print(one, flush=True)

    def close(self) -> None:
        for one in self.travellers:
            one.close()
        self._raw.close()

    # -- what happens

    def kill_leader(self) -> None:
        """kill -9 of a broker that leads partitions, written to or not; it is restarted."""
        self._end_broker(self._partitions(self._topics)[self._topics[0], 0].leader, signal.SIGKILL)

    def restart_brokers(self) -> None:
        """One after the other, as for an upgrade."""
        for node_id in range(1, BROKERS + 1):
            self._end_broker(node_id, signal.SIGTERM)

    def reassign(self) -> None:
        """Every leader loses its replica, gets it back, and is elected again."""
        before = self._partitions(self._topics)
        self._reassign({place: [*one.replicas[1:]] for place, one in before.items()})
        self._reassign({place: [*one.replicas[1:], one.replicas[0]] for place, one in before.items()})
        self._reassign({place: [*one.replicas] for place, one in before.items()})
        codes = elect(self._raw, self._partitions(self._topics))
        assert set(codes) <= {ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED}, codes
        self._settle()

    def _partitions(self, topics: list[str]) -> dict[Place, PartitionView]:
        return {place: one for place, one in view(self._raw).partitions.items() if place[0] in topics}

    def _end_broker(self, node_id: int, number: signal.Signals) -> None:
        name = f"broker-{node_id}"
        pid = self._up.child(name)["pid"]
        os.kill(pid, number)
        self._up.await_restart(name, pid)
        self._settle()

    def _reassign(self, targets: dict[Place, list[int]]) -> None:
        for topic in self._topics:
            own = {partition: wanted for (name, partition), wanted in targets.items() if name == topic}
            assert set(reassign(self._raw, topic, own)) == {0}
        until(
            lambda: self._holds(lambda: not ongoing(self._raw)),
            "the reassignments did not end",
        )

    def _settle(self) -> None:
        """Every partition has a leader and all its replicas in sync, and every client works."""
        topics = [*self._topics, INTERNAL]

        def is_in_sync() -> bool:
            found = self._partitions(topics)
            return bool(found) and all(
                one.leader > 0 and len(one.isr) == BROKERS and len(one.replicas) == BROKERS
                for one in found.values()
            )

        until(lambda: self._holds(is_in_sync), "not all replicas are in sync again")
        for one in self.travellers:
            one.await_more()

    def _holds(self, what: Callable[[], bool]) -> bool:
        try:
            return what()
        except ClientError:  # the broker that was asked is down
            return False
