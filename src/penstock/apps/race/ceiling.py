"""What the load itself could reach against a server that does nothing: no row may claim more. Never judges."""

from __future__ import annotations

from penstock.apps.measuring.null_server import null_server
from penstock.apps.race.course import Course
from penstock.apps.race.entrants import ENTRANTS, OURS
from penstock.apps.race.lanes.kafka import KafkaFeed
from penstock.apps.race.lanes.lane import ingest_rate
from penstock.apps.race.rows.streaming import BATCH_BYTES, IN_FLIGHT_BATCHES, KB, SMALL
from penstock.apps.race.servers.runner import Promise

BATCHES = 2_000


def loader_ceiling(course: Course) -> str:
    """Messages of 100 B and MB of 1 KB a second that the load could send."""
    small, large = (_ingest_rate(course, size) for size in (SMALL, KB))
    return f"{small:,.0f} msg/s of {SMALL} B, {large * KB / 1e6:,.0f} MB/s of 1 KB, against a server that only answers"


def _ingest_rate(course: Course, size: int) -> float:
    """The lane of Kafka's protocol against answers that were recorded from a real broker."""
    batch = BATCH_BYTES // size
    (ours,) = (one for one in ENTRANTS if one.runner.name == OURS)
    with course.started(ours, Promise.OS) as server:
        topic = course.new_name()
        ours.lane(server, size, topic).make_stream()
        feed = KafkaFeed(server.address(), size, topic)
        load = feed.load(batch)
        feed.link.send(load.content)
        answer = bytes(feed.link.receive())
    with null_server(course.cpus.server, len(load.content), answer) as address:
        idle = KafkaFeed(address, size, topic)
        idle.load(batch)
        return ingest_rate(idle, load, BATCHES * batch, batch * IN_FLIGHT_BATCHES)
