"""AsyncAdmin: Admin for asyncio, with the same methods. Never blocks the loop."""

from __future__ import annotations

import functools
from types import TracebackType
from typing import Self, Unpack

from penstock.client.errors import IllegalState
from penstock.client.options import ConnectionOptions, resolve_options
from penstock.client.rdkafka.admin import Admin
from penstock.client.rdkafka.worker_thread import in_thread, new_thread, threaded


class AsyncAdmin:
    """Manages topics and groups: `async with AsyncAdmin() as admin`."""

    def __init__(self, **options: Unpack[ConnectionOptions]) -> None:
        resolve_options(ConnectionOptions, options, "Admin")
        self._make = functools.partial(Admin, **options)
        self._admin: Admin | None = None
        self.thread = new_thread("admin")

    @property
    def blocking(self) -> Admin:
        if self._admin is None:
            raise IllegalState("The admin client is not open: use it inside `async with`.")
        return self._admin

    describe_cluster = threaded(Admin.describe_cluster)
    create_topic = threaded(Admin.create_topic)
    delete_topic = threaded(Admin.delete_topic)
    topics = threaded(Admin.topics)
    describe_topic = threaded(Admin.describe_topic)
    configs = threaded(Admin.configs)
    set_configs = threaded(Admin.set_configs)
    add_partitions = threaded(Admin.add_partitions)
    groups = threaded(Admin.groups)
    describe_group = threaded(Admin.describe_group)
    committed = threaded(Admin.committed)
    lag = threaded(Admin.lag)
    move_group = threaded(Admin.move_group)
    delete_group = threaded(Admin.delete_group)

    async def start(self) -> None:
        """Connect to the broker. Raises Unreachable."""
        self._admin = await in_thread(self.thread, self._make)

    async def close(self) -> None:
        self._admin = None
        self.thread.shutdown()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
