"""The transaction coordinator of a node: hosts the machines, keeps their events, has markers written. No protocol here.

Transactional ids live on the partitions of the internal topic `__transaction_state`, by a hash. A decision to commit or
abort is durable before the first marker is written, and is carried out until all markers stand, over restarts if need
be. What is said to a producer is durable; what a partition takes from a producer is vouched for by what is durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from zlib import crc32

from penstock.core.errors import (
    BrokerError,
    CoordinatorUnavailable,
    InvalidRequest,
    InvalidTransactionTimeout,
    Offline,
    TransactionBusy,
    WrongProducer,
)
from penstock.core.machines.transaction_records import decode, encode
from penstock.core.machines.transaction_values import PREPARED, Event, Transaction, TransactionSaved
from penstock.core.machines.transactions import Claim, Transactions
from penstock.core.model import NO_PRODUCER, TopicPartition
from penstock.node.coordinators.groups import OpenTopic
from penstock.node.coordinators.markers import Markers
from penstock.node.coordinators.shard import Shard
from penstock.node.coordinators.transaction_settings import TransactionSettings
from penstock.node.partition import Partition
from penstock.node.replicas.offset_waits import Settled
from penstock.node.runtime import Runtime
from penstock.node.tasks import Tasks

logger = logging.getLogger("penstock.transactions")

TOPIC = "__transaction_state"
TOPIC_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(100 << 20),
    "max.message.bytes": str(16 << 20),
    "compression.type": "producer",
    "penstock.durability": "fsync",
}
RETRY_S, RETRY_S_MAX = 0.2, 5.0
"""Markers that could not be written are tried again this much later, and then less and less often."""
EXPIRY_CHECK_MS = 60_000
"""How often, at most, ids are looked over for those that nobody uses."""
EXPIRED_AT_ONCE = 500
"""How many transactional ids are forgotten with one batch."""


class TransactionShard:
    """One partition of the topic, its machine, and how much of each transactional id is not durable yet."""

    def __init__(self, partition: Partition, runtime: Runtime) -> None:
        self.partition = partition
        self.machine = Transactions()
        self._shard: Shard[Event] = Shard(partition, self.machine, encode, decode, runtime)
        self._kept: dict[str, int] = {}
        self._later: list[Event] = []
        """Applied, and written with what comes next: nobody waits for it, and a restart would decide the same again."""

    def recover(self) -> None:
        self._shard.replay()

    def fail(self, bug: BaseException) -> None:
        """Work on this shard crashed: nothing that it holds can be trusted any more."""
        self.partition.fail(Offline(f"defect: {bug!r}"))

    def check_ready(self) -> None:
        self._shard.check_ready()

    def keep(self, events: Sequence[Event]) -> None:
        """Append and apply. Raises, with nothing applied, when it cannot append."""
        end_offset = self._shard.append([*self._later, *events])
        self._later.clear()
        for event in events:
            self.machine.apply(event)
            if isinstance(event, TransactionSaved):
                self._kept[event.transaction.transactional_id] = end_offset

    def keep_later(self, events: Sequence[Event]) -> None:
        """Apply now, append with the next that is kept or when `keep_rest` is called: a flush less for every commit."""
        self.check_ready()
        for event in events:
            self.machine.apply(event)
        self._later += events

    def keep_rest(self) -> None:
        if self._later:
            self.keep(())

    def when_kept(self, transactional_id: str, settled: Settled) -> None:
        """Call back once all that was decided about an id so far is durable; at once, if it is."""
        end_offset = self._kept.get(transactional_id, 0)
        if self.partition.high_watermark >= end_offset:
            self._kept.pop(transactional_id, None)
        self.partition.when_committed(end_offset, settled)

    async def kept(self, transactional_id: str) -> None:
        """Wait for the same; raises what went wrong."""
        done: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
        self.when_kept(transactional_id, done.set_result)
        error = await done
        if error is not None:
            raise error


class TransactionCoordinator:
    """Every transactional id of this node. `open` before use."""

    def __init__(
        self,
        settings: TransactionSettings,
        runtime: Runtime,
        open_topic: OpenTopic,
        new_producer_id: Callable[[], Awaitable[int]],
        markers: Markers,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._open_topic = open_topic
        self._new_producer_id = new_producer_id
        self._markers = markers
        self._shards: list[TransactionShard] = []
        self._tasks = Tasks()
        self._finishing: dict[str, asyncio.Future[None]] = {}
        """Transactional id to the end of the first attempt at its markers."""
        self._sweeping: asyncio.Task[None] | None = None
        self._expired_ms = 0

    # -- life

    async def open(self) -> None:
        """Make the topic if it is not there, read it, and go on with what was left undone. Free when it is open."""
        if self._shards:
            return
        count = self._settings.transaction_topic_partitions
        partitions = await self._open_topic(TOPIC, count, TOPIC_CONFIG)
        if self._shards:
            return
        self._shards = [TransactionShard(partition, self._runtime) for partition in partitions]
        for shard in self._shards:
            shard.recover()
            for one in shard.machine.prepared:
                self._finish(shard, one.transactional_id)
        self._sweeping = asyncio.create_task(self._sweep_forever(), name="transactions")

    async def stop(self) -> None:
        await self._tasks.stop()
        for shard in self._shards:
            try:
                shard.keep_rest()
            except BrokerError as error:
                logger.warning("ended transactions are completed once more at the next start: %s", error)
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)

    @property
    def is_open(self) -> bool:
        return bool(self._shards)

    def _shard_of(self, transactional_id: str) -> TransactionShard:
        if not self._shards:
            raise CoordinatorUnavailable("no producer has asked for a transactional id yet")
        shard = self._shards[crc32(transactional_id.encode()) % len(self._shards)]
        shard.check_ready()
        return shard

    # -- producers

    async def init(self, transactional_id: str, timeout_ms: int, expected: Claim | None) -> tuple[int, int]:
        """A producer id and epoch for a producer, all before it fenced; its open transaction, if any, is aborted."""
        if not transactional_id:
            raise InvalidRequest("a transactional id cannot be empty")
        if not 0 < timeout_ms <= self._settings.transaction_ms_max:
            raise InvalidTransactionTimeout(
                f"a transaction may take from 1 to {self._settings.transaction_ms_max} ms, not {timeout_ms}"
            )
        await self.open()
        shard = self._shard_of(transactional_id)
        new_id = NO_PRODUCER
        for _ in range(2):
            while new_id == NO_PRODUCER and shard.machine.needs_new_id(transactional_id):
                new_id = await self._new_producer_id()
            now_ms = self._runtime.clock.now_ms()
            shard.keep(
                shard.machine.decide_init(
                    transactional_id, timeout_ms, expected, new_id=new_id, now_ms=now_ms
                )
            )
            one = shard.machine.get(transactional_id)
            await shard.kept(transactional_id)
            if one.state not in PREPARED:
                return one.producer_id, one.producer_epoch
            await self._finish(shard, transactional_id)
        raise TransactionBusy(f"the transaction of {transactional_id!r} is being aborted")

    async def add(
        self, transactional_id: str, by: Claim, places: Sequence[TopicPartition], *, is_v2: bool
    ) -> None:
        """Take partitions into the producer's transaction."""
        if not transactional_id:
            raise InvalidRequest("a transactional id cannot be empty")
        done: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
        self._add(transactional_id, by, places, done.set_result, is_v2=is_v2)
        error = await done
        if error is not None:
            raise error

    def _add(
        self,
        transactional_id: str,
        by: Claim,
        places: Sequence[TopicPartition],
        settled: Settled,
        *,
        is_v2: bool,
    ) -> None:
        try:
            shard = self._known_shard(transactional_id)
            now_ms = self._runtime.clock.now_ms()
            enlisted = [self._markers.enlist(place) for place in places]
            events = shard.machine.decide_add(transactional_id, by, enlisted, now_ms=now_ms, is_v2=is_v2)
            if events:
                shard.keep(events)
        except BrokerError as error:
            settled(error)
            return
        shard.when_kept(transactional_id, settled)

    def _known_shard(self, transactional_id: str) -> TransactionShard:
        if not self._shards:
            raise WrongProducer(f"there is no transactional id {transactional_id!r}")
        return self._shard_of(transactional_id)

    def check(self, transactional_id: str, by: Claim, places: Sequence[TopicPartition]) -> None:
        """Are these partitions in the open transaction of this producer? Raises if not."""
        self._known_shard(transactional_id).machine.check_places(transactional_id, by, places)

    def admit(
        self,
        transactional_id: str,
        by: Claim,
        places: Sequence[TopicPartition],
        admitted: Settled,
        *,
        may_add: bool,
    ) -> None:
        """May this producer write to these partitions? Answered, maybe at once, when what vouches for it is durable.

        With `may_add` partitions that are not in the transaction are taken into it, as protocol V2 has it; otherwise
        only those of a topic that was re-created since its name was added. A topic may even be re-created while this
        is being written, and then it is written again: a batch in a partition that the entry does not name by its id
        would stay open for ever. Those who ask one after the other are answered one after the other.
        """

        def settled(error: BrokerError | None) -> None:
            if error is None:
                try:
                    self.check(transactional_id, by, places)
                    if not self._are_enlisted(transactional_id, places):
                        self._add(transactional_id, by, places, settled, is_v2=may_add)
                        return
                except BrokerError as refusal:
                    error = refusal
            admitted(error)

        if not may_add:
            try:
                self.check(transactional_id, by, places)
            except BrokerError as error:
                admitted(error)
                return
        self._add(transactional_id, by, places, settled, is_v2=may_add)

    def _are_enlisted(self, transactional_id: str, places: Sequence[TopicPartition]) -> bool:
        enlisted = [self._markers.enlist(place) for place in places]
        return self._known_shard(transactional_id).machine.are_enlisted(transactional_id, enlisted)

    async def end(self, transactional_id: str, by: Claim, *, commit: bool, is_v2: bool) -> tuple[int, int]:
        """Commit or abort. Returns the producer id and epoch to go on with, once the decision is durable.

        If all goes well the markers stand by then, too, so what was committed can be read at once.
        """
        if not transactional_id:
            raise InvalidRequest("a transactional id cannot be empty")
        shard = self._known_shard(transactional_id)
        new_id = NO_PRODUCER
        if is_v2 and shard.machine.needs_new_id(transactional_id):
            new_id = await self._new_producer_id()
        now_ms = self._runtime.clock.now_ms()
        events = shard.machine.decide_end(
            transactional_id, by, commit=commit, is_v2=is_v2, new_id=new_id, now_ms=now_ms
        )
        if events:
            shard.keep(events)
        one = shard.machine.get(transactional_id)
        await shard.kept(transactional_id)
        if events:
            await self._finish(shard, transactional_id)
        return one.for_producer

    # -- carrying out decisions

    def _finish(self, shard: TransactionShard, transactional_id: str) -> asyncio.Future[None]:
        """Have the markers of a decided transaction written, however long it takes; done after the first attempt."""
        attempt = self._finishing.get(transactional_id)
        if attempt is None:
            attempt = self._finishing[transactional_id] = asyncio.get_running_loop().create_future()
            self._tasks.spawn(self._carry_out(shard, transactional_id, attempt), shard.fail)
        return attempt

    async def _carry_out(
        self, shard: TransactionShard, transactional_id: str, attempt: asyncio.Future[None]
    ) -> None:
        """Until it is done: a disk may have room again, and an offline partition's topic may be deleted."""
        pause_s = RETRY_S
        try:
            while (error := await self._try(shard, transactional_id)) is not None:
                logger.warning(
                    "markers are missing, trying again: %s",
                    error,
                    extra={"transactional_id": transactional_id},
                )
                _mark_done(attempt)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_S_MAX)
        finally:
            del self._finishing[transactional_id]
            _mark_done(attempt)

    async def _try(self, shard: TransactionShard, transactional_id: str) -> BrokerError | None:
        """One attempt; returns what stood in its way."""
        one = shard.machine.get(transactional_id)
        assert one.state in PREPARED, one
        try:
            await shard.kept(transactional_id)
            await self._markers.write(one)
            shard.keep_later(shard.machine.decide_complete(transactional_id, self._runtime.clock.now_ms()))
        except BrokerError as error:
            return error
        return None

    # -- what ends by itself

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(self._settings.transaction_check_ms / 1000)
            self.sweep()

    def sweep(self) -> None:
        """Abort what took too long; forget what nobody uses."""
        now_ms, expiry_ms = self._runtime.clock.now_ms(), self._settings.transactional_id_expiry_ms
        is_expiry_due = now_ms - self._expired_ms >= min(expiry_ms, EXPIRY_CHECK_MS)
        if is_expiry_due:
            self._expired_ms = now_ms
        for shard in self._shards:
            try:
                shard.check_ready()
                shard.keep_rest()
                for one in shard.machine.timed_out(now_ms):
                    logger.info(
                        "aborting a transaction that took too long",
                        extra={"transactional_id": one.transactional_id, "producer_id": one.producer_id},
                    )
                    shard.keep(shard.machine.decide_fence(one.transactional_id, now_ms))
                    self._finish(shard, one.transactional_id)
                if is_expiry_due:
                    forgotten = shard.machine.decide_expire(now_ms, expiry_ms)
                    for at in range(0, len(forgotten), EXPIRED_AT_ONCE):
                        shard.keep(forgotten[at : at + EXPIRED_AT_ONCE])
            except BrokerError as error:
                logger.warning("transactions are not looked over: %s", error)

    # -- looking

    def all(self) -> list[Transaction]:
        """Every transactional id, sorted."""
        found: list[Transaction] = []
        for shard in self._shards:
            shard.check_ready()
            found += shard.machine.all
        return sorted(found, key=lambda one: one.transactional_id)

    def get(self, transactional_id: str) -> Transaction:
        """What is known of one id; raises UnknownTransaction."""
        if not self._shards:
            return Transactions().get(transactional_id)
        return self._shard_of(transactional_id).machine.get(transactional_id)


def _mark_done(attempt: asyncio.Future[None]) -> None:
    if not attempt.done():
        attempt.set_result(None)
