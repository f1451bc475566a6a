"""Fetch: reads whole batches as they are stored. Does not wait and does not decode batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from penstock.core.access import Operation
from penstock.core.errors import Fenced, OffsetOutOfRange, TornSegment
from penstock.core.limits import RECORDS_COPIED_BYTES_MAX
from penstock.core.log.segment import Slice
from penstock.core.log.transactions import Aborted
from penstock.core.model import NO_EPOCH, Isolation, TopicRef
from penstock.core.session import Session
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.rack_reads import NO_PREFERENCE as NO_PREFERENCE
from penstock.node.waist.rack_reads import RackReads
from penstock.node.waist.routes import Routes
from penstock.node.waist.waits import Waitable

_new = tuple.__new__


class OutTraffic(Protocol):
    """A counter of sent bytes."""

    out_bytes: int


class FetchSource(Waitable, Protocol):
    """A partition as a source of batches: waitable, with a counter of sent bytes and aborted transactions."""

    @property
    def traffic(self) -> OutTraffic: ...

    def aborted_between(self, start: int, end: int) -> Sequence[Aborted]: ...


class Fetched(NamedTuple):
    """The result of a read from one partition."""

    source: FetchSource
    run: Slice | None
    """Whole batches; None if there are none yet."""
    high_watermark: int
    last_stable_offset: int
    start_offset: int
    error: OffsetOutOfRange | Fenced | None
    """Why nothing can be read although the partition exists: the offsets tell the reader where to continue."""
    preferred_id: int = NO_PREFERENCE
    """The broker in the reader's rack from which it should read instead; nothing was read here then."""


class FetchVerbs:
    """Reads batches for clients that decode them."""

    def __init__(self, authorization: Authorization, routes: Routes, racks: RackReads) -> None:
        self._authorization = authorization
        self._find = routes.partition
        self._racks = racks

    def read(
        self,
        session: Session,
        topic: TopicRef,
        index: int,
        offset: int,
        bytes_max: int,
        isolation: Isolation,
        leader_epoch: int,
        rack: str = "",
    ) -> Fetched:
        """Batches from an offset on. If the caller states a leader epoch, it must be the current one. With its rack it
        may be referred to a replica there, and read from one."""
        if self._authorization.authorizer is not None:
            self._authorization.authorize_topic(session, Operation.READ, topic)
        preferred_id, run, error = NO_PREFERENCE, None, None
        partition = self._racks.find(topic, index, offset) if rack else self._find(topic, index)
        try:
            if leader_epoch != NO_EPOCH:
                partition.check_epoch(leader_epoch)
            if rack:
                preferred_id = self._racks.preferred(partition, rack, offset)
            if preferred_id == NO_PREFERENCE:
                run = partition.read(offset, bytes_max, isolation)
        except (OffsetOutOfRange, Fenced) as refusal:
            error = refusal
        return _new(
            Fetched,
            (
                partition,
                run,
                partition.high_watermark,
                partition.last_stable_offset,
                partition.start_offset,
                error,
                preferred_id,
            ),
        )


def read_small(run: Slice) -> Slice | bytes:
    """The bytes of a short run; a longer run is returned as is, for sendfile."""
    if run.length > RECORDS_COPIED_BYTES_MAX:
        return run
    content = run.read()
    if len(content) < run.length:
        raise TornSegment(f"{run.file.path} ended before byte {run.position + run.length}")
    return content
