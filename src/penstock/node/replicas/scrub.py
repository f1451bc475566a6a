"""Compares the replicas of the partitions that this broker leads, in rounds: checksums of committed records, read back
from disk on every in-sync replica.

A replica whose batches fail their own checks fails by itself. If all are sound and yet differ, the majority is right:
the others fail, and are copied again. Without a majority nothing is touched; the difference is logged and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from penstock.core.errors import BrokerError, CorruptBatch, TornSegment
from penstock.core.log.range_checksum import RangeChecksum, choose_end, first_boundary
from penstock.core.replication.rate_limit import RateLimit
from penstock.core.replication.scrub_verdict import ScrubVerdict, find_minority
from penstock.node.peers.links import PeerLinks
from penstock.node.peers.scrub_calls import ScrubProgress, WantedChecksum, ask_checksum
from penstock.node.replicas.checksums import RANGE_BYTES, checksum_of
from penstock.node.replicas.leading import Leading
from penstock.node.replicas.led_partition import LedPartition
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.scrub")

T = TypeVar("T")

FIRST_S = 600.0
"""A broker that is restarted often compares its replicas too: the first round does not wait for the whole interval."""


class Scrub:
    """The rounds of one broker. An interval of 0: only those that are asked for."""

    def __init__(
        self,
        runtime: Runtime,
        links: PeerLinks,
        leading: Leading,
        interval_s: float,
        bytes_per_s: int,
    ) -> None:
        self._runtime = runtime
        self._links = links
        self._leading = leading
        self._interval_s = interval_s
        self._bytes_per_s = bytes_per_s
        self._limit = RateLimit()
        self._loop = asyncio.get_running_loop()
        self._wanted: dict[str | None, None] = {}
        """Topics of the rounds that were asked for; None: all of them."""
        self._wake = asyncio.Event()
        self._tasks = Tasks()
        self._is_running = False
        self._rounds = 0

    def start(self) -> None:
        self._tasks.spawn(self._repeat())

    def begin(self, topic: str | None) -> None:
        """Compare all partitions, or those of one topic, now or after the round in progress."""
        self._wanted[topic] = None
        self._wake.set()

    def progress(self) -> ScrubProgress:
        """What was compared since the start of this broker."""
        meters = self._runtime.meters
        return ScrubProgress(
            self._is_running or bool(self._wanted),
            self._rounds,
            meters.scrubbed_bytes,
            meters.scrub_differences,
            meters.replica_repairs,
        )

    async def stop(self) -> None:
        await self._tasks.stop()

    # -- rounds

    async def _repeat(self) -> None:
        pause_s = min(FIRST_S, self._interval_s)
        while True:
            if not self._wanted:
                self._wake.clear()
                try:
                    async with asyncio.timeout(pause_s if self._interval_s > 0 else None):
                        await self._wake.wait()
                except TimeoutError:
                    self._wanted[None] = None
            pause_s = self._interval_s
            topic = next(iter(self._wanted))
            self._is_running = True
            del self._wanted[topic]
            try:
                await self._round(topic)
            finally:
                self._is_running = False
            self._rounds += 1

    async def _round(self, topic: str | None) -> None:
        for led in list(self._leading.led()):
            if topic in (None, led.partition.topic):
                try:
                    await self._scrub(led)
                except BrokerError as error:
                    logger.warning(
                        "cannot compare the replicas of %s; the next round retries: %s", led.partition, error
                    )

    async def _scrub(self, led: LedPartition) -> None:
        """Compare one partition from its start to what all in-sync replicas have."""
        partition, log = led.partition, led.partition.log
        offset = -1
        while self._is_comparable(led):
            start, limit = self._bounds(led)
            try:
                offset = first_boundary(log, max(offset, start))
                if offset >= limit:
                    return
                end = choose_end(log, offset, limit, RANGE_BYTES)
            except (CorruptBatch, TornSegment) as error:
                self._note_own_damage(led, offset, limit, error)
                partition.report_damage(error)
                return
            while (wait_s := self._limit.wait_s(self._bytes_per_s, self._loop.time())) > 0:
                await asyncio.sleep(wait_s)
            await self._compare(led, offset, end)
            offset = end

    def _is_comparable(self, led: LedPartition) -> bool:
        """Compacted replicas have different batches with the same records."""
        partition = led.partition
        place = led.tracker.placed.id
        return (
            self._leading.find(place) is led
            and partition.is_leader
            and partition.failure is None
            and not partition.config.cleanup_compact
            and len(led.tracker.placed.isr) > 1
        )

    def _bounds(self, led: LedPartition) -> tuple[int, int]:
        """The offsets that all in-sync replicas have, as far as is known."""
        log, placed = led.partition.log, led.tracker.placed
        start, end = max(log.start_offset, log.gaps_before), log.high_watermark
        for one in placed.isr:
            fetch = led.tracker.find(one)
            if fetch is not None:
                start, end = max(start, fetch.start_offset), min(end, fetch.offset)
            elif one != placed.leader:
                end = start
        return start, end

    # -- one range

    async def _compare(self, led: LedPartition, start: int, end: int) -> None:
        verdict = find_minority(await self._ask_all(led, start, end))
        if verdict is not None:  # it has to be found twice
            verdict = find_minority(await self._ask_all(led, start, end))
        if verdict is not None:
            self._runtime.meters.scrub_differences += max(1, len(verdict.losers))
            await self._settle(led, start, end, verdict)

    async def _ask_all(self, led: LedPartition, start: int, end: int) -> dict[int, bytes]:
        """The checksums of the replicas that are sound and answer; none if this one is damaged."""
        placed, meters = led.tracker.placed, self._runtime.meters
        others = [one for one in placed.isr if one != placed.leader]
        wanted = WantedChecksum(placed.id, placed.leader_epoch, start, end)
        own, *answers = await asyncio.gather(
            _outcome(checksum_of(self._runtime, led.partition, start, end)),
            *(_outcome(self._ask(one, wanted)) for one in others),
        )
        digests = dict[int, bytes]()
        for one, answer in zip(others, answers, strict=True):
            if isinstance(answer, CorruptBatch):
                meters.scrub_differences += 1
                self._report(led, start, end, f"broker {one} has damaged records and repairs them: {answer}")
            elif not isinstance(answer, BrokerError):
                digests[one] = answer.digest
        if isinstance(own, CorruptBatch):
            self._note_own_damage(led, start, end, own)
            return {}
        if isinstance(own, BrokerError):
            raise own
        self._limit.spend(own.size_bytes)
        meters.scrubbed_bytes += own.size_bytes
        return {placed.leader: own.digest, **digests}

    async def _ask(self, broker_id: int, wanted: WantedChecksum) -> RangeChecksum:
        return RangeChecksum(await ask_checksum(self._links, broker_id, wanted), 0, ())

    def _note_own_damage(self, led: LedPartition, start: int, end: int, error: BrokerError) -> None:
        self._runtime.meters.scrub_differences += 1
        self._report(led, start, end, f"this broker has damaged records and repairs them: {error}")

    async def _settle(self, led: LedPartition, start: int, end: int, verdict: ScrubVerdict) -> None:
        """Replicas that differ from the majority fail. The others decide themselves, on what they read."""
        placed = led.tracker.placed
        if not verdict.losers:
            self._report(led, start, end, "there is no majority, so nothing is changed; compare the files")
            return
        self._report(led, start, end, f"brokers {list(verdict.losers)} differ from the majority")
        wanted = WantedChecksum(placed.id, placed.leader_epoch, start, end, verdict.digest)
        for one in verdict.losers:
            if one == placed.leader:
                led.partition.report_damage(differing(led.partition, start, end))
                continue
            try:
                await ask_checksum(self._links, one, wanted)
            except BrokerError as error:
                logger.info("broker %d was told of the difference: %s", one, error)

    def _report(self, led: LedPartition, start: int, end: int, what: str) -> None:
        logger.error(
            "replicas of %s differ between offsets %d and %d: %s",
            led.partition,
            start,
            end,
            what,
            extra=_names(led),
        )


async def _outcome(asked: Coroutine[Any, Any, T]) -> T | BrokerError:
    try:
        return await asked
    except BrokerError as error:
        return error


def differing(partition: object, start: int, end: int) -> CorruptBatch:
    """The failure of a replica that differs from the majority."""
    return CorruptBatch(
        f"{partition}: the records from offset {start} to {end} differ from those of most replicas"
    )


def _names(led: LedPartition) -> dict[str, str | int]:
    return {"topic": led.partition.topic, "partition": led.partition.index}
