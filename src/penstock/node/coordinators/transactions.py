"""The transaction coordinator of a node: producer calls, timeouts and expiry. Speaks no protocol.

Transactional ids live on the partitions of the internal topic `__transaction_state`, by a hash. A decision to commit
or abort is durable before the first marker is written, and is completed until all markers are written, across restarts
if needed. Replies to producers report durable state only, and a partition accepts transactional batches only if
durable state vouches for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from penstock.core.errors import (
    BrokerError,
    CoordinatorUnavailable,
    InvalidRequest,
    InvalidTransactionTimeout,
    TransactionBusy,
    WrongProducer,
)
from penstock.core.machines.transactions.transactions import Claim, Transactions
from penstock.core.machines.transactions.values import PREPARED, Transaction
from penstock.core.model import NO_PRODUCER, TopicPartition
from penstock.node.coordinators.groups import OpenTopic
from penstock.node.coordinators.markers import Markers
from penstock.node.coordinators.shard_host import ShardHost
from penstock.node.coordinators.transaction_settings import TransactionSettings
from penstock.node.coordinators.transaction_shard import Attempt, TransactionShard
from penstock.node.replicas.offset_waits import Settled
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import resolver

logger = logging.getLogger("penstock.transactions")

TOPIC = "__transaction_state"
TOPIC_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(100 << 20),
    "max.message.bytes": str(16 << 20),
    "compression.type": "producer",
    "penstock.durability": "fsync",
}
EXPIRY_CHECK_MS = 60_000
"""Minimum interval between checks for expired transactional ids."""
EXPIRED_AT_ONCE = 500
"""Transactional ids expired per batch."""


class TransactionCoordinator:
    """Every transactional id of this node. Call `open` before use."""

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
        self._new_producer_id = new_producer_id
        self._markers = markers
        self.host: ShardHost[TransactionShard] = ShardHost(
            lambda: open_topic(TOPIC, settings.transaction_topic_partitions, TOPIC_CONFIG),
            lambda partition: TransactionShard(partition, markers, runtime),
            self._start_sweeping,
        )
        self._sweeping: asyncio.Task[None] | None = None
        self._expired_ms = 0

    # -- lifecycle

    async def open(self) -> None:
        """Create the topic if it is missing, start to replay it, and finish decided transactions.

        Does nothing if it is open. Until a partition is replayed, calls for its ids fail with Loading.
        """
        await self.host.open()

    def _start_sweeping(self) -> None:
        self._sweeping = asyncio.create_task(self._sweep_forever(), name="transactions")

    async def loaded(self) -> None:
        """Wait until every running replay has ended."""
        await self.host.loaded()

    def retry_markers(self) -> None:
        """Partitions have other leaders: write markers that failed so far without waiting any longer."""
        for shard in self.host.shards:
            shard.retry_markers()

    async def stop(self) -> None:
        for shard in self.host.shards:
            await shard.stop("the broker is stopping")
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)

    @property
    def is_open(self) -> bool:
        return self.host.is_open

    def _shard_of(self, transactional_id: str) -> TransactionShard:
        if not self.host.is_open:
            raise CoordinatorUnavailable("the transaction coordinator is not running yet")
        return self.host.of(transactional_id)

    # -- producers

    async def init(self, transactional_id: str, timeout_ms: int, expected: Claim | None) -> tuple[int, int]:
        """Assign a producer id and epoch; fences all earlier producers and aborts the open transaction, if any."""
        if not transactional_id:
            raise InvalidRequest("a transactional id cannot be empty")
        if not 0 < timeout_ms <= self._settings.transaction_ms_max:
            raise InvalidTransactionTimeout(
                f"the transaction timeout must be from 1 to {self._settings.transaction_ms_max} ms, not {timeout_ms}"
            )
        await self.open()
        shard = self._shard_of(transactional_id)
        new_id = NO_PRODUCER
        for _ in range(2):
            while new_id == NO_PRODUCER and shard.machine.needs_new_id(transactional_id):
                new_id = await self._new_producer_id()
            now_ms = self._runtime.clock.now_ms()
            events = shard.machine.decide_init(
                transactional_id, timeout_ms, expected, new_id=new_id, now_ms=now_ms
            )
            shard.persist(events, transactional_id)
            one = shard.machine.get(transactional_id)
            await shard.persisted(transactional_id)
            if one.state not in PREPARED:
                return one.producer_id, one.producer_epoch
            await _attempted(shard.finish(transactional_id))
        raise TransactionBusy(f"the transaction of {transactional_id!r} is being aborted")

    async def add(
        self, transactional_id: str, by: Claim, places: Sequence[TopicPartition], *, is_v2: bool
    ) -> None:
        """Add partitions to the producer's transaction."""
        if not transactional_id:
            raise InvalidRequest("a transactional id cannot be empty")
        done: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
        self._add(transactional_id, by, places, resolver(done), is_v2=is_v2)
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
                shard.persist(events, transactional_id)
        except BrokerError as error:
            settled(error)
            return
        shard.when_persisted(transactional_id, settled)

    def _known_shard(self, transactional_id: str) -> TransactionShard:
        if not self.host.is_open:
            raise WrongProducer(f"transactional id {transactional_id!r} does not exist")
        return self.host.of(transactional_id)

    def check(self, transactional_id: str, by: Claim, places: Sequence[TopicPartition]) -> None:
        """Raises unless these partitions are in the open transaction of this producer."""
        self._known_shard(transactional_id).machine.check_partitions(transactional_id, by, places)

    def admit(
        self,
        transactional_id: str,
        by: Claim,
        places: Sequence[TopicPartition],
        admitted: Settled,
        *,
        may_add: bool,
    ) -> None:
        """Check that this producer may write to these partitions; answered, possibly before this returns, once the
        entries are durable.

        With `may_add` missing partitions are added to the transaction, as in protocol V2; otherwise only those of a
        topic that was re-created since it was added. If a topic is re-created while the entry is being written, the
        entry is written again: a batch in a partition whose topic id is not in the entry would never get its marker.
        Calls are answered in the order in which they were made.
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
        """Commit or abort. Returns the producer id and epoch for the next transaction, once the decision is durable.

        Waits for the first attempt to write the markers, so that committed records are normally readable when it
        returns.
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
            shard.persist(events, transactional_id)
        one = shard.machine.get(transactional_id)
        await shard.persisted(transactional_id)
        if events:
            await _attempted(shard.finish(transactional_id))
        return one.for_producer

    # -- timeouts and expiry

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(self._settings.transaction_check_ms / 1000)
            self.sweep()

    def sweep(self) -> None:
        """Abort timed-out transactions and remove expired transactional ids."""
        now_ms, expiry_ms = self._runtime.clock.now_ms(), self._settings.transactional_id_expiry_ms
        is_expiry_due = now_ms - self._expired_ms >= min(expiry_ms, EXPIRY_CHECK_MS)
        if is_expiry_due:
            self._expired_ms = now_ms
        for shard in self.host.shards:
            if not shard.is_ready:
                continue
            try:
                shard.persist_rest()
                for one in shard.machine.timed_out(now_ms):
                    logger.info(
                        "transaction timed out, aborting it",
                        extra={"transactional_id": one.transactional_id, "producer_id": one.producer_id},
                    )
                    fenced = shard.machine.decide_fence(one.transactional_id, now_ms)
                    shard.persist(fenced, one.transactional_id)
                    shard.finish(one.transactional_id)
                if is_expiry_due:
                    forgotten = shard.machine.decide_expire(now_ms, expiry_ms)
                    for at in range(0, len(forgotten), EXPIRED_AT_ONCE):
                        shard.persist(forgotten[at : at + EXPIRED_AT_ONCE])
            except BrokerError as error:
                logger.warning(
                    "cannot persist timed-out or expired transactions; the next check retries: %s",
                    error,
                    extra={"partition": str(shard.partition)},
                )

    # -- lookup

    def all(self) -> list[Transaction]:
        """Every transactional id that this node coordinates, sorted."""
        found: list[Transaction] = []
        for shard in self.host.led:
            shard.check_ready()
            found += shard.machine.all
        return sorted(found, key=lambda one: one.transactional_id)

    def get(self, transactional_id: str) -> Transaction:
        """The state of one transactional id; raises UnknownTransaction."""
        if not self.host.is_open:
            return Transactions().get(transactional_id)
        return self.host.of(transactional_id).machine.get(transactional_id)


async def _attempted(attempt: Attempt) -> None:
    """Wait for the first attempt to write a transaction's markers; raises if the shard has resigned."""
    error = await attempt
    if error is not None:
        raise error
