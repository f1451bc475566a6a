"""A whole broker in memory whose flushes finish in the next iteration of the loop, for tests above the waist.

Not a mock: only clock and workers are the test's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from in_process_client import KAFKA_ONLY
from manual_ports import Hand, PromptWorkers
from penstock.core.model import Storage
from penstock.node.broker import Broker, start_broker
from penstock.node.runtime.memory import MemoryFiles
from penstock.node.settings import Settings

SETTINGS = Settings(storage=Storage.MEMORY, **KAFKA_ONLY)
TURNS_MAX = 10_000


def with_broker(
    test: Callable[[Broker], Coroutine[Any, Any, None]], settings: Settings = SETTINGS, workers: Any = None
) -> None:
    """Run an asynchronous test with a broker of its own."""

    async def main() -> None:
        broker = await start_broker(settings, Hand(MemoryFiles(), workers or PromptWorkers()).runtime)
        try:
            await test(broker)
        finally:
            await broker.stop()

    asyncio.run(main())


async def make_topic(broker: Broker, name: str, partitions: int = 1, **overrides: str) -> None:
    """A topic; `cleanup_policy="compact"` means cleanup.policy."""
    topic_id = broker.new_topic_id()
    configs: dict[str, str | None] = {key.replace("_", "."): value for key, value in overrides.items()}
    await broker.change(
        lambda catalog: catalog.decide_create_topic(name, partitions, configs, topic_id=topic_id, now_ms=1)
    )


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something has become so."""
    for _ in range(TURNS_MAX):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")
