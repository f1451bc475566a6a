"""The partitions that this node holds: opens, leads, follows and closes them as the catalog says.

A single node holds and leads every partition. In a cluster, metadata names the brokers of a partition; a lookup of a
partition that is led elsewhere raises NotLeader with the current leader. A node leads nothing before it has joined its
cluster, whatever its last known metadata says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from penstock.core.errors import BrokerError, LeaderNotAvailable, NotLeader, UnknownTopic
from penstock.core.log.log import Log, LogLimits
from penstock.core.log.recovery import open_log
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Topic
from penstock.core.machines.cluster.values import KAFKA_LISTENER, NO_LEADER, PartitionReplicas
from penstock.core.model import PartitionId, TopicRef
from penstock.core.topic_config import TopicConfig
from penstock.node.replicas.damage import is_damage
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.replica import Replica
from penstock.node.replicas.strays import STRAY_MS_MAX, set_aside, stray_directories
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import Sliced
from penstock.node.runtime.tasks import Tasks
from penstock.node.runtime.workers import run_blocking

logger = logging.getLogger("penstock.partitions")

TOPICS_DIRECTORY = "topics"
REOPEN_S = 1.0
"""Delay before the node retries to open a partition that failed to open."""

OPENING_UNITS, CLOSING_UNITS = 24, 4
"""Cost of opening a partition with its directory and files, and of closing it; see SLICE_UNITS."""
ROLE_UNITS = 2
"""Cost of changing the role of an open partition."""


class PartitionTable:
    """Partitions by topic and index. `on_role` is told after a partition began or ceased to lead here."""

    def __init__(
        self,
        catalog: Catalog,
        runtime: Runtime,
        node_id: int,
        run_epoch: int,
        recovery_points: dict[str, int],
        on_role: Callable[[Partition], None],
    ) -> None:
        self._catalog = catalog
        self._runtime = runtime
        self._node_id = node_id
        self._run_epoch = run_epoch
        self._recovery_points = recovery_points
        self._on_role = on_role
        self.on_failed: Callable[[Partition], None] | None = None
        """Told when a partition went offline."""
        self._by_topic: dict[str, list[Partition | None]] = {}
        self._syncs = Tasks()
        self.is_active = False
        """Whether this node takes part in its cluster, and leads what metadata assigns to it."""
        self._is_stopped = False

    # -- lookup

    def all(self) -> list[Partition]:
        """Every partition held here."""
        return [one for partitions in self._by_topic.values() for one in partitions if one is not None]

    def of_topic(self, topic: str) -> list[Partition]:
        """The partitions of one topic that are held here, by index; empty if the topic does not exist."""
        return [one for one in self._by_topic.get(topic, ()) if one is not None]

    def is_open(self, topic: str) -> bool:
        return topic in self._by_topic

    def get(self, topic: TopicRef, index: int) -> Partition:
        """One partition, by the topic's name or id, that this node leads.

        Raises UnknownTopic, NotLeader with the broker that leads it, or LeaderNotAvailable.
        """
        if isinstance(topic, bytes):
            topic = self._catalog.topic_by_id(topic).name
        partitions = self._by_topic.get(topic)
        if partitions is None or not 0 <= index < len(partitions):
            raise UnknownTopic(f"there is no partition {index} of a topic {topic!r}")
        partition = partitions[index]
        if partition is None or not partition.is_leader:
            raise self._elsewhere(topic, index)
        return partition

    def find_held(self, partition: PartitionId) -> Partition | None:
        """A partition that is held here, led or followed."""
        topic = self._catalog.find_by_id(partition.topic_id)
        partitions = [] if topic is None else self._by_topic.get(topic.name, [])
        return partitions[partition.partition] if partition.partition < len(partitions) else None

    def find_led(self, topic: str, index: int) -> Partition | None:
        """One partition by name, if this node leads it. Raises UnknownTopic."""
        partitions = self._by_topic.get(topic)
        if partitions is None or not 0 <= index < len(partitions):
            raise UnknownTopic(f"there is no partition {index} of a topic {topic!r}")
        partition = partitions[index]
        return partition if partition is not None and partition.is_leader else None

    def leader_of(self, topic: str, index: int) -> int:
        """The broker that leads a partition; NO_LEADER if nobody does. Raises UnknownTopic."""
        found = self._catalog.topic_with(topic, index)
        placed = self._placed(found, index)
        return self._node_id if placed is None else placed.leader

    def _elsewhere(self, topic: str, index: int) -> BrokerError:
        placed = self._catalog.cluster.find_partition(PartitionId(self._catalog.topic(topic).id, index))
        if placed is None or placed.leader == NO_LEADER:
            replicas = [] if placed is None else list(placed.replicas)
            return LeaderNotAvailable(
                f"{topic}-{index} has no leader at the moment: none of its brokers {replicas} is running"
            )
        if placed.leader == self._node_id:
            return LeaderNotAvailable(f"{topic}-{index}: this broker is not an active member of the cluster")
        leader = self._catalog.cluster.find_broker(placed.leader)
        return NotLeader(
            f"{topic}-{index} is led by broker {placed.leader}",
            leader_id=placed.leader,
            leader_epoch=placed.leader_epoch,
            leader_address=None if leader is None else leader.listeners.get(KAFKA_LISTENER),
        )

    # -- reconcile with the catalog

    def open_topic(self, topic: Topic) -> Sliced[None]:
        """Configure, open and grow the partitions of a topic. Those of a new topic become visible together."""
        config = self._catalog.config(topic.name)
        known = self._by_topic.get(topic.name, [])
        partitions = list(known)
        for partition in partitions:
            if partition is not None:
                partition.configure(config)
            yield 1
        for index in range(len(partitions), topic.partition_count):
            placed = self._placed(topic, index)
            is_held = self._is_held(placed)
            partitions.append(self._open(topic, index, config) if is_held else None)
            yield OPENING_UNITS if is_held else 1
        self._by_topic[topic.name] = partitions
        for partition in partitions[len(known) :]:
            if partition is not None:
                self._assume_role(partition)

    def place(self, placed: PartitionReplicas) -> Sliced[None]:
        """A partition was placed or changed: open, lead, follow or close it."""
        topic = self._catalog.find_by_id(placed.topic_id)
        partitions = [] if topic is None else self._by_topic.get(topic.name, [])
        if topic is None or placed.partition >= len(partitions):
            return  # `open_topic` looks at the placement itself
        partition = partitions[placed.partition]
        if self._is_stopped:
            if partition is not None and placed.leader != self._node_id:
                self._cease(partition, placed.leader_epoch)
            return
        if partition is None and self._is_held(placed):
            config = self._catalog.config(topic.name)
            partition = partitions[placed.partition] = self._open(topic, placed.partition, config)
            yield OPENING_UNITS
            self._syncs.spawn(partition.sync_recovered())
        if partition is None:
            return
        if self._is_held(placed):
            self._assume_role(partition)
            yield ROLE_UNITS
        else:
            partitions[placed.partition] = None
            self._drop(partition, NotLeader(f"{partition} was moved to brokers {list(placed.replicas)}"))
            self._discard(partition.log.directory)
            yield CLOSING_UNITS

    def set_active(self, *, is_active: bool) -> None:
        """Begin or cease to lead what the catalog assigns to this node. Ceasing takes effect before this returns."""
        self.is_active = is_active
        for partition in self.all():
            self._assume_role(partition)

    def _cease(self, partition: Partition, epoch: int) -> None:
        """While the node stops, its partitions are being flushed and closed, but it must not commit as a leader once
        metadata says that it is none."""
        if partition.is_leader and partition.failure is None:
            partition.follow(max(epoch, partition.leader_epoch))
            self._on_role(partition)

    def _placed(self, topic: Topic, index: int) -> PartitionReplicas | None:
        return self._catalog.cluster.find_partition(PartitionId(topic.id, index))

    def _is_held(self, placed: PartitionReplicas | None) -> bool:
        if placed is None:
            return not self._catalog.cluster.has_brokers
        return self._node_id in placed.replicas

    def _assume_role(self, partition: Partition) -> None:
        """Lead or follow as the catalog says; nothing happens if that is the case already."""
        placed = self._catalog.cluster.find_partition(PartitionId(partition.topic_id, partition.index))
        was_leader, earlier_epoch = partition.is_leader, partition.leader_epoch
        if placed is None:
            if not was_leader:
                partition.lead(self._single_epoch(partition.log))
        elif self.is_active and placed.leader == self._node_id:
            if not was_leader or placed.leader_epoch > earlier_epoch:
                partition.lead(placed.leader_epoch, is_placed=True)
        elif was_leader or placed.leader_epoch > earlier_epoch:
            partition.follow(max(placed.leader_epoch, earlier_epoch))
        if (partition.is_leader, partition.leader_epoch) != (was_leader, earlier_epoch):
            self._on_role(partition)

    def _single_epoch(self, log: Log) -> int:
        """The leader epoch in which a single node leads a partition from now on.

        It is above every epoch of a run that ended without a clean shutdown, and durable before the first append,
        because the run epoch is. A log with a higher epoch was written under another identity file; its epochs must
        not go back.
        """
        run_epoch, latest = self._run_epoch, log.epochs.latest
        return run_epoch if latest <= run_epoch else latest + 1

    # -- open and close

    def _open(self, topic: Topic, index: int, config: TopicConfig) -> Partition:
        directory = f"{TOPICS_DIRECTORY}/{topic.id.hex()}/{index}"
        limits = LogLimits(config.segment_bytes, config.segment_ms, config.index_interval_bytes)
        failure: BrokerError | None = None
        try:
            log = self._open_log(topic, index, config, is_shared=self._is_shared(topic, index))
        except BrokerError as error:
            if self._is_incomplete(topic, index) and not error.retriable:
                return self._open_again(topic, index, config, error)
            failure, log = error, Log(self._runtime.files, directory, limits)
        partition = self._make(topic, index, log, config)
        if failure is not None:
            partition.waits_to_open = failure.retriable
            partition.fail(failure)
            if partition.waits_to_open:
                asyncio.get_running_loop().call_later(REOPEN_S, self._reopen, topic, partition)
        return partition

    def _open_log(
        self,
        topic: Topic,
        index: int,
        config: TopicConfig,
        recovery_offset: int = -1,
        *,
        is_shared: bool = False,
    ) -> Log:
        """Verifies what is after the saved recovery point, or after the given one. Blocks on the disk.

        `is_shared`: a damaged log is not opened, because other replicas have its records.
        """
        directory = f"{TOPICS_DIRECTORY}/{topic.id.hex()}/{index}"
        return open_log(
            self._runtime.files,
            directory,
            LogLimits(config.segment_bytes, config.segment_ms, config.index_interval_bytes),
            recovery_offset=(
                self._recovery_points.get(directory, 0) if recovery_offset < 0 else recovery_offset
            ),
            now_ms=self._runtime.clock.now_ms(),
            report=partial(logger.warning, "%s: %s", f"{topic.name}-{index}"),
            refuses_damage=is_shared,
        )

    def _make(self, topic: Topic, index: int, log: Log, config: TopicConfig) -> Partition:
        partition = Partition(topic, index, log, config, self._runtime)
        partition.on_failed = self._failed
        return partition

    def _failed(self, partition: Replica) -> None:
        if not self._is_stopped and self.on_failed is not None:
            assert isinstance(partition, Partition)
            self.on_failed(partition)

    def _is_shared(self, topic: Topic, index: int) -> bool:
        """Whether another broker has a complete replica of this partition. While the only complete one is down, no
        other becomes complete, so the last known metadata tells."""
        placed = self._placed(topic, index)
        return placed is not None and bool({*placed.isr, *placed.elr} - {self._node_id})

    def _is_incomplete(self, topic: Topic, index: int) -> bool:
        """Whether other brokers hold this partition, and this one is still copying it. One that was in sync may have
        records that no other broker has, before its move is over."""
        placed, own_id = self._placed(topic, index), self._node_id
        return placed is not None and own_id in placed.adding and own_id not in (*placed.isr, *placed.elr)

    def _open_again(self, topic: Topic, index: int, config: TopicConfig, error: BrokerError) -> Partition:
        """A damaged copy is not needed: start it again. The damaged files are set aside, unless the last run has done
        that before it was killed."""
        directory = f"{TOPICS_DIRECTORY}/{topic.id.hex()}/{index}"
        logger.error(
            "the copy of a partition that is being moved here is damaged; copying it again: %s",
            error,
            extra={"topic": topic.name, "partition": index},
        )
        if self._runtime.files.exists(directory):
            set_aside(self._runtime.files, directory, self._runtime.clock.now_ms())
        self._recovery_points.pop(directory, None)
        return self._open(topic, index, config)

    def _reopen(self, topic: Topic, failed: Partition) -> None:
        """Retry to open a partition that failed for lack of descriptors or disk space."""
        partitions = self._by_topic.get(topic.name, [])
        if failed not in partitions or topic.id != self._catalog.topic(topic.name).id:
            return
        partitions[failed.index] = partition = self._open(topic, failed.index, failed.config)
        self._assume_role(partition)
        if partition.failure is None:
            logger.info("partition is online again", extra={"topic": topic.name, "partition": failed.index})
            partition.start_sync()

    async def reopen_failed(self, failed: Partition) -> None:
        """Open the log of a failed replica again. Every batch is verified: after a failed flush nobody knows what is on
        disk. A damaged log is set aside. Only for replicas that metadata does not count on."""
        topic, directory = self._catalog.topic(failed.topic), failed.log.directory
        failed.log.close()
        self._recovery_points[directory] = 0
        open_verified = partial(self._open_log, topic, failed.index, failed.config, 0, is_shared=True)
        try:
            if is_damage(failed.failure):
                raise failed.failure
            log = await run_blocking(self._runtime.workers, open_verified)
        except BrokerError as error:
            if error.retriable:
                raise
            logger.error(
                "a replica is damaged; its files are set aside for %d hours and it is copied again from its leader: %s",
                STRAY_MS_MAX // 3_600_000,
                error,
                extra={"topic": failed.topic, "partition": failed.index},
            )
            if self._runtime.files.exists(directory):
                set_aside(self._runtime.files, directory, self._runtime.clock.now_ms())
            log = self._open_log(topic, failed.index, failed.config, 0)
        await self._replace(failed, log)

    async def reopen_damaged(self, failed: Partition) -> None:
        """Open a damaged log with what is readable of it: no other replica is complete. Raises BrokerError if records
        are missing that were durable."""
        topic = self._catalog.topic(failed.topic)
        failed.log.close()
        open_rest = partial(self._open_log, topic, failed.index, failed.config)
        await self._replace(failed, await run_blocking(self._runtime.workers, open_rest))

    async def _replace(self, failed: Partition, log: Log) -> None:
        """Put an opened log into the place of a failed replica, in its present role."""
        topic, partitions = self._catalog.topic(failed.topic), self._by_topic.get(failed.topic, [])
        if self._is_stopped or failed not in partitions:
            log.close()
            return
        partition = self._make(topic, failed.index, log, self._catalog.config(topic.name))
        partitions[failed.index] = partition
        await partition.sync_recovered()
        if partitions[failed.index] is partition:
            self._assume_role(partition)
            self._on_role(partition)

    def failed(self) -> list[PartitionId]:
        """The partitions that are offline here and do not come back by themselves."""
        return [
            PartitionId(one.topic_id, one.index)
            for one in self.all()
            if one.failure is not None and not one.waits_to_open
        ]

    def lower_recovery_point(self, partition: Partition, offset: int) -> bool:
        """Make sure that the recovery point of a partition is not above an offset at which its log is about to end.
        True if it was: it must be saved then, before the log is truncated."""
        directory = partition.log.directory
        if self._recovery_points.get(directory, 0) <= offset:
            return False
        self._recovery_points[directory] = offset
        return True

    async def sync_recovered(self) -> None:
        """Sync what recovery found in all partitions, before it becomes readable."""
        await asyncio.gather(*(partition.sync_recovered() for partition in self.all()))

    def drop_topic(self, name: str) -> Sliced[None]:
        """Close the partitions of a deleted topic and remove its directory."""
        error = UnknownTopic(f"topic {name!r} was deleted")
        dropped = [one for one in self._by_topic.pop(name, ()) if one is not None]
        for partition in dropped:
            self._drop(partition, error)
            yield CLOSING_UNITS
        if dropped:
            self._remove_directory(dropped[0].log.directory.rpartition("/")[0])

    def _drop(self, partition: Partition, error: BrokerError) -> None:
        self._recovery_points.pop(partition.log.directory, None)
        was_leader = partition.is_leader
        partition.close(error)
        partition.is_leader = partition.is_writable = False
        if was_leader:
            self._on_role(partition)

    def remove_leftovers(self, removed: set[bytes]) -> None:
        """Finish interrupted deletions. A directory that the catalog does not know is not deleted: it may be the only
        copy of a topic."""
        files = self._runtime.files
        known = {topic.id.hex() for topic in self._catalog.topics}
        for directory in stray_directories(files, TOPICS_DIRECTORY, self._catalog.cluster, self._node_id):
            stray = set_aside(files, directory, self._runtime.clock.now_ms())
            self._recovery_points.pop(directory, None)
            logger.warning(
                "set aside the directory of a partition that other brokers hold; it is deleted in %d hours",
                STRAY_MS_MAX // 3_600_000,
                extra={"directory": stray},
            )
        leftovers = {topic_id.hex() for topic_id in removed} - known
        for name in files.names(TOPICS_DIRECTORY):
            if name in leftovers:
                logger.info("removing the directory of a deleted topic", extra={"directory": name})
                self._remove_directory(f"{TOPICS_DIRECTORY}/{name}")
            elif name not in known:
                logger.error(
                    "directory belongs to no known topic; not deleting it", extra={"directory": name}
                )

    def _discard(self, directory: str) -> None:
        """Delete a replica that a committed change gave away. It is renamed first: the partition may come back while
        its files are being deleted."""
        try:
            if self._runtime.files.exists(directory):
                directory = set_aside(self._runtime.files, directory, self._runtime.clock.now_ms())
        except BrokerError as error:
            logger.error(
                "cannot rename the directory of a moved partition; it stays: %s",
                error,
                extra={"directory": directory},
            )
            return
        self._remove_directory(directory)

    def _remove_directory(self, directory: str) -> None:
        def removed(outcome: BaseException | None) -> None:
            if outcome is not None:
                logger.error(
                    "cannot remove the directory of a deleted topic; the next start retries: %s",
                    outcome,
                    extra={"directory": directory},
                )

        self._runtime.workers.submit(partial(self._runtime.files.remove_dir, directory), removed)

    async def stop(self) -> bool:
        """Flush and close every partition, and note the recovery points; False if that failed for any."""
        self._is_stopped = True
        await self._syncs.stop()
        partitions = self.all()
        settled = await asyncio.gather(*(partition.settle() for partition in partitions))
        for partition, is_settled in zip(partitions, settled, strict=True):
            directory = partition.log.directory
            # Without a recovery point, the next start would take a directory that was lost for an empty partition.
            if is_settled or not self._runtime.files.names(directory):
                self._recovery_points[directory] = partition.recovery_point
            partition.close(NotLeader("the broker is stopping"))
        return all(settled)
