"""A producer that runs transactions against a node without a door, and a reader of what it committed. No socket."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.core.errors import BrokerError
from penstock.core.machines.transactions.transactions import Claim
from penstock.core.model import Isolation, NewRecord, TopicPartition
from penstock.core.records.batch import TRANSACTIONAL, decode_header, encode_header, stamp_checksum
from penstock.core.records.build import build_batch, open_batch
from penstock.core.records.control import read_marker
from penstock.node.broker import Broker
from penstock.node.coordinators.committed import Committer, NewOffset
from penstock.node.coordinators.groups import TOPIC as GROUPS_TOPIC
from penstock.node.replicas.partition import Partition


def transactional_batch(by: Claim, sequence: int, values: Sequence[bytes]) -> bytearray:
    batch = build_batch([NewRecord(None, value) for value in values], 1_000)
    header = decode_header(batch)._replace(
        attributes=TRANSACTIONAL,
        producer_id=by.producer_id,
        producer_epoch=by.producer_epoch,
        base_sequence=sequence,
    )
    batch[:61] = encode_header(header)
    stamp_checksum(batch)
    return batch


class Writer:
    """One producer under a transactional id, by protocol V1 or V2."""

    def __init__(self, broker: Broker, name: str, *, is_v2: bool = False, timeout_ms: int = 60_000) -> None:
        self.broker = broker
        self.name = name
        self.is_v2 = is_v2
        self.timeout_ms = timeout_ms
        self.by = Claim(-1, -1)
        self._sequences: dict[TopicPartition, int] = {}

    async def begin(self) -> None:
        """Take over the transactional id."""
        self.by = Claim(*await self.broker.transactions.init(self.name, self.timeout_ms, None))
        self._sequences = {}

    async def write(self, place: TopicPartition, *values: bytes) -> int:
        """Records into the transaction; returns their first offset once they are durable."""
        if not self.is_v2:
            await self.broker.transactions.add(self.name, self.by, [place], is_v2=False)
        await self._admitted(place)
        sequence = self._sequences.get(place, 0)
        partition = self.broker.partition(*place)
        batch = transactional_batch(self.by, sequence, values)
        appended = partition.append(memoryview(batch), in_transaction=True)
        self._sequences[place] = sequence + len(values)
        await _durable(partition, appended.end_offset)
        return appended.base_offset

    async def _admitted(self, place: TopicPartition) -> None:
        done: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
        self.broker.transactions.admit(self.name, self.by, [place], done.set_result, may_add=self.is_v2)
        error = await done
        if error is not None:
            raise error

    async def pend(self, group: str, offset: int, place: TopicPartition) -> None:
        """An offset of a group that counts if the transaction commits."""
        group_coordinator = self.broker.group_coordinator
        kept_at = TopicPartition(GROUPS_TOPIC, group_coordinator.groups.shard_of(group).partition.index)
        if not self.is_v2:
            await self.broker.transactions.add(self.name, self.by, [kept_at], is_v2=False)
        await self._admitted(kept_at)
        done: asyncio.Future[list[BrokerError | None] | BrokerError] = (
            asyncio.get_running_loop().create_future()
        )
        new = NewOffset(place, offset, -1, "")
        group_coordinator.committed.pend(group, Committer(), self.by, [new], done.set_result)
        outcome = await done
        for error in outcome if isinstance(outcome, list) else [outcome]:
            if error is not None:
                raise error

    async def end(self, *, commit: bool) -> None:
        after = await self.broker.transactions.end(self.name, self.by, commit=commit, is_v2=self.is_v2)
        if self.is_v2:
            self.by, self._sequences = Claim(*after), {}


async def _durable(partition: Partition, offset: int) -> None:
    done: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
    partition.when_committed(offset, done.set_result)
    error = await done
    if error is not None:
        raise error


def committed_values(partition: Partition) -> list[bytes | None]:
    """What a reader of committed records sees of the whole partition: as clients do, by the list of what aborted."""
    values: list[bytes | None] = []
    offset = partition.start_offset
    while (found := partition.read(offset, 1 << 20, Isolation.READ_COMMITTED)) is not None:
        raw, position = memoryview(found.read()), 0
        aborted = {
            (one.producer_id, one.first_offset) for one in partition.aborted_between(offset, found.end_offset)
        }
        skipping: set[int] = set()
        while position < len(raw):
            header = decode_header(raw, position)
            batch = raw[position : position + header.size]
            position += header.size
            for producer_id, first_offset in sorted(aborted):
                if first_offset <= header.base_offset:
                    skipping.add(producer_id)
                    aborted.discard((producer_id, first_offset))
            if header.is_control:
                assert read_marker(batch, header) is not None
                skipping.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipping):
                values += [record.value for record in open_batch(batch, header)]
        offset = found.end_offset
    return values
