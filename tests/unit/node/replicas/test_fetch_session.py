"""What a leader knows in a fetch session, and which answers still count."""

from __future__ import annotations

from penstock.core.model import PartitionId
from penstock.core.replication.fetches import ReplicaFetch
from penstock.node.replicas.fetch_session import NO_SESSION, FetchSession

FIRST, SECOND = PartitionId(b"t" * 16, 0), PartitionId(b"t" * 16, 1)


def wanted(partition: PartitionId, offset: int = 0, leader_epoch: int = 0) -> ReplicaFetch:
    return ReplicaFetch(partition, offset, leader_epoch, 0, 0, 1_000)


def test_the_next_request_waits_for_the_id_of_the_session() -> None:
    session = FetchSession(0.0)
    assert session.is_open
    first = session.begin([wanted(FIRST), wanted(SECOND)], [])
    assert (first.session_id, first.epoch) == (NO_SESSION, 0)
    assert not session.is_open
    session.id = 7
    assert session.is_open
    later = session.begin([wanted(FIRST, 5)], [])
    assert (later.session_id, later.epoch) == (7, 1)


def test_what_has_not_changed_is_known() -> None:
    session = FetchSession(0.0)
    session.begin([wanted(FIRST)], [])
    assert session.knows(wanted(FIRST))
    assert not session.knows(wanted(FIRST, offset=5))
    assert not session.knows(wanted(FIRST, leader_epoch=1)), "an entry counts in one leader epoch only"
    assert not session.knows(wanted(SECOND))


def test_an_answer_counts_unless_the_partition_was_named_again_or_forgotten() -> None:
    session = FetchSession(0.0)
    first = session.begin([wanted(FIRST), wanted(SECOND)], [])
    second = session.begin([wanted(FIRST, 5)], [])
    assert session.answered(first, FIRST) is None, "it refers to an earlier offset"
    assert session.answered(first, SECOND) == session.answered(second, SECOND) == wanted(SECOND)
    assert session.answered(second, FIRST) == wanted(FIRST, 5)
    session.begin([], [FIRST])
    assert session.answered(second, FIRST) is None
    assert FIRST not in session and len(session) == 1


def test_a_partition_with_an_error_is_named_again() -> None:
    session = FetchSession(0.0)
    flight = session.begin([wanted(FIRST)], [])
    session.drop(FIRST)
    assert not session.knows(wanted(FIRST))
    assert session.answered(flight, FIRST) is None
