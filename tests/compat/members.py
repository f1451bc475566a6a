"""Members of consumer groups as processes, watched together: who holds what, what was read, what was committed.

Never waits a fixed time: `until` returns as soon as what is waited for is true, and says what it saw if it never is.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient

from compat.fact_process import FactProcess, program_command
from compat.roster import AIOKAFKA, CONFLUENT, JAVA, KAFKA_PYTHON, KAFKAJS

CLASSIC, CONSUMER = "classic", "consumer"
AFTER, BEFORE, AUTO = "after", "before", "auto"
"""When a member commits what it read: after it told of it, before it does, or when its client likes."""
EARLIEST, NONE = "earliest", "none"
"""What a member does without a valid position: start over, or fail."""
CONFIGURATIONS = (
    *((CONFLUENT, CLASSIC), (CONFLUENT, CONSUMER), (AIOKAFKA, CLASSIC), (KAFKA_PYTHON, CLASSIC)),
    *((KAFKAJS, CLASSIC), (JAVA, CLASSIC), (JAVA, CONSUMER)),
)
"""Every client with every group protocol that it speaks."""
UNTIL_S_MAX = 150.0
DESCRIBE_S_MAX = 20.0
SESSION_MS = 2_000
Place = tuple[str, int]


class Read(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: str


class Member(FactProcess):
    """One member of a group."""

    def __init__(self, troop: Troop, client: str, options: dict[str, Any]) -> None:
        self.client = client
        self.holds: frozenset[Place] = frozenset()
        self.held: list[frozenset[Place]] = []
        """Everything it has held, in order."""
        self.reads: list[Read] = []
        self.ends: dict[Place, int] = {}
        """How far it has read."""
        self.committed: dict[Place, int] = {}
        self.refused: list[str] = []
        command = program_command("member", client, troop.bootstrap, {**troop.options, **options})
        super().__init__(command, troop.changed)

    def __repr__(self) -> str:
        last = self.reads[-1] if self.reads else None
        return (
            f"<{self.client} holds {sorted(self.holds)}, read {len(self.reads)}, last {last}, "
            f"committed {self.committed}, refused {self.refused}>"
        )

    def note(self, fact: dict[str, Any]) -> None:
        if "holds" in fact:
            self.holds = frozenset((topic, partition) for topic, partition in fact["holds"])
            self.held.append(self.holds)
        elif "read" in fact:
            read = Read(*fact["read"])
            self.reads.append(read)
            place = read.topic, read.partition
            self.ends[place] = max(read.offset + 1, self.ends.get(place, 0))
        elif "committed" in fact:
            topic, partition, offset = fact["committed"]
            self.committed[topic, partition] = offset
        elif "refused" in fact:
            self.refused.append(fact["refused"])
        else:
            super().note(fact)

    def note_end(self) -> None:
        self.holds = frozenset()


class Troop:
    """The members of one group."""

    def __init__(self, bootstrap: str, group: str, places: Iterable[Place], **options: Any) -> None:
        self.bootstrap = bootstrap
        self.places = frozenset(places)
        defaults = {"session_ms": SESSION_MS, "protocol": CLASSIC, "commit": AFTER, "reset": EARLIEST}
        topics = sorted({topic for topic, _ in self.places})
        self.options = {"group": group, "topics": topics, **defaults, **options}
        self.changed = threading.Condition()
        self.members: list[Member] = []

    def __enter__(self) -> Troop:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            if member.is_running:
                member.kill()

    def add(self, client: str, **options: Any) -> Member:
        member = Member(self, client, options)
        self.members.append(member)
        return member

    def until(self, what: str, is_true: Callable[[], bool]) -> None:
        """Wait until something is true of the members."""
        deadline = time.monotonic() + UNTIL_S_MAX
        with self.changed:
            while not is_true():
                left_s = deadline - time.monotonic()
                assert left_s > 0, f"never: {what}; {self.members}; the broker says: {self._described()}"
                failed = [(member.client, member.failed) for member in self.members if member.failed]
                assert not failed, f"while waiting until {what}: {failed}"
                self.changed.wait(left_s)

    def _described(self) -> str:
        """The group as the broker knows it: whoever is missing here was forgotten, or never came."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        group = self.options["group"]
        found = admin.describe_consumer_groups([group], request_timeout=DESCRIBE_S_MAX)[group].result()
        members = [
            (one.member_id, sorted((at.topic, at.partition) for at in one.assignment.topic_partitions))
            for one in found.members
        ]
        return f"{found.state}, members {members}"

    def until_owned_by(self, *members: Member, shares: list[int] | None = None) -> None:
        """Wait until these hold all partitions between them, each some, none twice; so many each, in any order."""

        def is_owned() -> bool:
            held = [member.holds for member in members]
            sizes = sorted(map(len, held))
            is_whole = sum(sizes) == len(self.places) and frozenset().union(*held) == self.places
            return is_whole and sizes[0] > 0 and shares in (None, sizes)

        self.until(f"{len(members)} members own everything, shared as {shares or 'they like'}", is_owned)

    def until_read(self, values: Iterable[str]) -> None:
        """Wait until every value was read by somebody."""
        wanted = set(values)
        self.until("everything is read", lambda: wanted <= {one.value for one in self.reads()})

    def until_read_beyond(self, ends: dict[Place, int], *members: Member) -> None:
        """Wait until each of these has read something that lies beyond these offsets."""

        def is_beyond(member: Member) -> bool:
            return any(one.offset >= ends[one.topic, one.partition] for one in member.reads)

        self.until("they all read on", lambda: all(map(is_beyond, members)))

    def until_committed(self, ends: dict[Place, int]) -> None:
        """Wait until the members' last commits reach these offsets."""
        self.until(
            f"{ends} is committed",
            lambda: all(self.committed().get(one, 0) >= end for one, end in ends.items()),
        )

    def reads(self) -> list[Read]:
        return [read for member in self.members for read in member.reads]

    def committed(self) -> dict[Place, int]:
        """The furthest that anybody has committed, by partition."""
        furthest: dict[Place, int] = {}
        for member in self.members:
            for place, offset in member.committed.items():
                furthest[place] = max(offset, furthest.get(place, 0))
        return furthest

    def repeated(self, below: dict[Place, int] | None = None) -> list[tuple[str, int, int]]:
        """Where something was read more than once; only below these offsets if they are given."""
        counts = Counter((one.topic, one.partition, one.offset) for one in self.reads())
        twice = sorted(place for place, count in counts.items() if count > 1)
        return [one for one in twice if below is None or one[2] < below[one[0], one[1]]]
