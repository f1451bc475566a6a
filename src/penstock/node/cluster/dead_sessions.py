"""Ends the sessions of a broker whose process is known to have ended, at the coordinator of its machine.

For the process that supervises the brokers: it hears of the end of a child at once, and proves to the coordinator that
it knows the cluster's secret, as brokers do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.core.ports import Rng
from penstock.node.cluster.metadata_link import CoordinatorAccess, connect_coordinator
from penstock.node.cluster.metadata_log import LiveSession
from penstock.wire.metadata.frames import EndSession, SessionsNow, WatchSessions

END_S_MAX = 2.0


async def end_dead_sessions(access: CoordinatorAccess, rng: Rng, is_dead: Callable[[], bool]) -> int:
    """End all sessions of the broker `access.broker_id`; returns how many.

    `is_dead` is asked after they were listed: while no other process of that broker has started, all of them belong to
    the dead one. Raises OSError, EOFError, TimeoutError or BrokerError if the coordinator cannot be asked.
    """
    async with asyncio.timeout(END_S_MAX):
        link = await connect_coordinator(access, rng)
        try:
            reply = await link.call(WatchSessions(0))
            assert isinstance(reply, SessionsNow)
            held = [LiveSession(*row) for row in reply.sessions if row[1] == access.broker_id]
            if not is_dead():
                return 0
            for live in held:
                await link.call(EndSession(live))
        finally:
            link.close("done")
    return len(held)
