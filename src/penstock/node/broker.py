"""THE WAIST: every door calls this, and nothing else. Topics, partitions, configs, producer ids; start and stop.

Never speaks a protocol. A door asks for a partition and appends to it, reads from it or waits on it; everything that
changes what exists goes through the metadata host and is durable before it is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from penstock.core.errors import BrokerError, InvalidConfig, Offline, UnknownTopic, UnknownTopicId
from penstock.core.log.log import LogLimits
from penstock.core.log.recovery import open_log
from penstock.core.machines.catalog import Catalog, ConfigChange, Event, Topic
from penstock.core.topic_config import TopicConfig, resolve
from penstock.node import checkpoint
from penstock.node.janitor import Janitor
from penstock.node.metadata import DIRECTORY as METADATA_DIRECTORY
from penstock.node.metadata import SEGMENT_BYTES as METADATA_SEGMENT_BYTES
from penstock.node.metadata import Metadata
from penstock.node.partition import Partition, carry_out
from penstock.node.runtime import Runtime
from penstock.node.settings import DEFINITIONS, Settings
from penstock.node.workers import run_blocking

logger = logging.getLogger("penstock.broker")

TOPICS_DIRECTORY = "topics"
_FOREVER_MS = 2**62


class Broker:
    """One node."""

    def __init__(self, settings: Settings, runtime: Runtime) -> None:
        self.settings = settings
        self.runtime = runtime
        self.catalog = Catalog()
        self.identity = checkpoint.Identity("", settings.node_id, 0)
        self._partitions: dict[str, list[Partition]] = {}
        self._recovery_points: dict[str, int] = {}
        self._producer_ids = range(0)
        self._janitor = Janitor(self)
        self.metadata: Metadata | None = None
        self.catalog_version = 0
        """Goes up whenever topics change, so that doors may keep what they made of them."""

    # -- life

    async def start(self) -> None:
        """Recover everything and be ready to serve."""
        files = self.runtime.files
        was_clean = checkpoint.take_clean_marker(files)
        self.identity = checkpoint.load_identity(files, self.runtime.rng, self.settings.node_id, was_clean=was_clean)
        self._recovery_points = checkpoint.load_recovery_points(files)
        self.metadata = await self._open_metadata()
        if not was_clean and len(self.catalog.topics):
            logger.warning("the last run did not stop clean: checking what it may have left torn")
        for topic in self.catalog.topics.values():
            self._open_topic(topic)
        await self._sync_recovered()
        self._remove_strangers()
        self._janitor.start()

    async def stop(self) -> None:
        """Flush everything, remember where it ends, and leave the mark of a clean stop."""
        self._janitor.stop()
        healthy = True
        for partition in self.partitions():
            plan = partition.log.take_dirty()
            try:
                if partition.failure is None:
                    await run_blocking(self.runtime.workers, partial(carry_out, self.runtime.files, plan))
                    partition.log.publish(plan.mark)
                    partition.log.save_state()
                    self._recovery_points[partition.log.directory] = partition.log.end_offset
            except BrokerError as error:
                partition.fail(error)
            healthy = healthy and partition.failure is None
            partition.close(Offline("the broker is stopping"))
        if self.metadata is not None:
            self.metadata.log.save_state()
            self._recovery_points[METADATA_DIRECTORY] = self.metadata.log.end_offset
            self.metadata.log.close()
        checkpoint.save_recovery_points(self.runtime.files, self._recovery_points)
        if healthy:
            checkpoint.write_clean_marker(self.runtime.files, self.runtime.clock.now_ms())

    async def _open_metadata(self) -> Metadata:
        limits = LogLimits(METADATA_SEGMENT_BYTES, _FOREVER_MS, self.settings.index_interval_bytes)
        log = open_log(
            self.runtime.files,
            METADATA_DIRECTORY,
            limits,
            recovery_offset=self._recovery_points.get(METADATA_DIRECTORY, 0),
            now_ms=self.runtime.clock.now_ms(),
            report=partial(_report, METADATA_DIRECTORY),
        )
        metadata = Metadata(log, self.catalog, self.runtime, self.identity.leader_epoch)
        plan = log.take_dirty()
        await run_blocking(self.runtime.workers, partial(carry_out, self.runtime.files, plan))
        log.publish(plan.mark)
        metadata.replay()
        return metadata

    async def _sync_recovered(self) -> None:
        """What recovery found must be as durable as it will be called, before anyone reads it."""
        for partition in self.partitions():
            if partition.log.is_dirty and partition.failure is None:
                plan = partition.log.take_dirty()
                try:
                    await run_blocking(self.runtime.workers, partial(carry_out, self.runtime.files, plan))
                except BrokerError as error:
                    partition.fail(error)
                else:
                    partition.log.publish(plan.mark)
                    partition.durable_offset = plan.mark.offset

    def _remove_strangers(self) -> None:
        """Directories of topics that the catalog does not know: their deletion was cut short."""
        known = {topic.id.hex() for topic in self.catalog.topics.values()}
        for name in self.runtime.files.names(TOPICS_DIRECTORY):
            if name not in known:
                logger.info("removing what is left of a deleted topic", extra={"directory": name})
                self.runtime.files.remove_dir(f"{TOPICS_DIRECTORY}/{name}")

    # -- partitions

    def partitions(self) -> list[Partition]:
        return [partition for row in self._partitions.values() for partition in row]

    def partition(self, topic: str, index: int) -> Partition:
        """The owner of one partition."""
        row = self._partitions.get(topic)
        if row is None or not 0 <= index < len(row):
            raise UnknownTopic(f"there is no partition {index} of a topic {topic!r}")
        return row[index]

    def topic(self, name: str) -> Topic:
        topic = self.catalog.topics.get(name)
        if topic is None:
            raise UnknownTopic(f"there is no topic {name!r}")
        return topic

    def topic_by_id(self, topic_id: bytes) -> Topic:
        topic = self.catalog.topics_by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId(f"there is no topic with id {topic_id.hex()}")
        return topic

    def _open_topic(self, topic: Topic) -> None:
        """Bring the owners of a topic's partitions in line with the catalog."""
        config = self.topic_config(topic)
        row = self._partitions.setdefault(topic.name, [])
        for partition in row:
            partition.configure(config)
        for index in range(len(row), topic.partition_count):
            row.append(self._open_partition(topic, index, config))

    def _open_partition(self, topic: Topic, index: int, config: TopicConfig) -> Partition:
        directory = f"{TOPICS_DIRECTORY}/{topic.id.hex()}/{index}"
        limits = LogLimits(config.segment_bytes, config.segment_ms, config.index_interval_bytes)
        arguments = (self.runtime.files, directory, limits)
        failure: BrokerError | None = None
        try:
            log = open_log(
                *arguments,
                recovery_offset=self._recovery_points.get(directory, 0),
                now_ms=self.runtime.clock.now_ms(),
                report=partial(_report, f"{topic.name}-{index}"),
            )
        except BrokerError as error:
            failure, log = error, closed_log(*arguments)
        partition = Partition(topic.name, index, log, config, self.identity.leader_epoch, self.runtime)
        if failure is not None:
            partition.fail(failure)
        return partition

    def topic_config(self, topic: Topic) -> TopicConfig:
        return resolve(topic.overrides, self.config_defaults())

    def config_defaults(self) -> Mapping[str, str]:
        """Broker-level values, by Kafka's names, that topics inherit: settings, then what was changed at run time."""
        values = {one.kafka: config_text(getattr(self.settings, one.name)) for one in DEFINITIONS if one.kafka}
        return {**values, **self.catalog.broker_overrides}

    # -- what exists

    async def change(self, decide: Callable[[Catalog], Sequence[Event]]) -> None:
        """Change the catalog: `decide` sees its present state; what it returns is durable before it takes effect."""
        assert self.metadata is not None
        events = await self.metadata.commit(lambda: decide(self.catalog))
        if events:
            self._follow_catalog()

    def _follow_catalog(self) -> None:
        self.catalog_version += 1
        for topic in self.catalog.topics.values():
            self._open_topic(topic)
        for name in [name for name in self._partitions if name not in self.catalog.topics]:
            self._drop_topic(name)

    def _drop_topic(self, name: str) -> None:
        for partition in self._partitions.pop(name):
            self._recovery_points.pop(partition.log.directory, None)
            partition.close(UnknownTopic(f"topic {name!r} was deleted"))
            directory = partition.log.directory.rpartition("/")[0]
        self.runtime.workers.submit(partial(self.runtime.files.remove_dir, directory), partial(_log_removal, directory))

    # -- producer ids

    async def new_producer_id(self) -> int:
        """An id that no producer ever had or will have."""
        if not self._producer_ids:
            await self.change(lambda catalog: catalog.decide_reserve_producer_ids())
        return 0
