"""A terminal's view of a coordinator in another process, over its HTTP API. `peer` defines the interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from penstock.apps.control.commands import ConsoleError, parse_command
from penstock.apps.control.console_token import TokenError
from penstock.apps.control.coordinator_client import CoordinatorClient, NoCoordinator
from penstock.apps.control.peer import Reply
from penstock.node.runtime.tasks import Tasks

REFRESH_S = 2.0


class RemotePeer:
    """The coordinator behind a client. Its health is what it said last."""

    ends_cluster = False

    def __init__(self, client: CoordinatorClient) -> None:
        self._client = client
        self._health: dict[str, str] = {}
        self.names: Sequence[str] = ()

    def health(self) -> Mapping[str, str]:
        return self._health

    async def refresh(self) -> None:
        """Look at all services. Raises NoCoordinator."""
        found = await asyncio.to_thread(self._client.status)
        self._health = {one["name"]: one["health"] for one in found["services"]}
        self.names = tuple(self._health)

    async def watch(self) -> None:
        """Look again and again."""
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                await self.refresh()
            except NoCoordinator:
                self._health = {}

    async def ask(self, line: str) -> Reply:
        try:
            as_json = parse_command(line).as_json
            answer = await asyncio.to_thread(self._client.run, line)
        except (ConsoleError, NoCoordinator, TokenError) as error:
            return Reply(f"error: {error}")
        return Reply(answer.json_text() if as_json else answer.text, answer.leaves)


@asynccontextmanager
async def remote_peer(client: CoordinatorClient) -> AsyncIterator[RemotePeer]:
    """A peer whose health is refreshed. Raises NoCoordinator. Calls end with it: their threads would delay the exit."""
    peer = RemotePeer(client)
    await peer.refresh()
    tasks = Tasks()
    tasks.spawn(peer.watch())
    try:
        yield peer
    finally:
        client.abort()
        await tasks.stop()
