"""A connection to the coordinator that is gone before the link has heard of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from penstock.node.cluster.metadata_link import MetadataLink
from penstock.wire.metadata.frames import Cancel, Renew

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.mark.parametrize("make_loop", LOOPS.values(), ids=LOOPS)
def test_a_call_on_a_connection_that_was_reset_fails_and_the_link_is_lost(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """The transport knows of the reset one turn of the loop earlier than whoever reads from it."""

    async def scene() -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            link = MetadataLink(reader, writer)
            writer.transport.abort()
            await asyncio.sleep(0)
            with pytest.raises(ConnectionResetError):
                await link.call(Renew(()))
            assert link.lost.result() == "the connection was reset"
            with pytest.raises(ConnectionResetError):
                link.send(Cancel())

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(scene())
