"""Sessions on leases of etcd: a key per live session, removed with its lease. Liveness only, never safety.

A session counts as over here before etcd may remove its key: its time runs from the moment a renewal was sent, and is
shorter than the lease's. Its number is the revision that created its key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from penstock.core.errors import BrokerError, TornSegment
from penstock.node.cluster.etcd_layout import Keys
from penstock.node.cluster.metadata_log import LiveSession
from penstock.node.cluster.remote_sessions import OWN_SHARE, RENEWALS_PER_TTL, RemoteSession
from penstock.node.etcd.client import EtcdClient, Lease
from penstock.node.etcd.failover import CallLimits
from penstock.node.etcd.watch_stream import WATCH_IDLE_S_MAX, WATCH_PAUSE_S
from penstock.node.runtime.tasks import Tasks
from penstock.wire.etcd.messages import KeyValue, get, is_absent, put

REVOKE_LIMITS = CallLimits(3.0, 1.0)
"""Short, so that a broker can stop although etcd is unreachable."""

logger = logging.getLogger("penstock.sessions")


class EtcdSessions:
    """The sessions of one cluster, and those that this broker holds."""

    def __init__(self, client: EtcdClient, keys: Keys, ttl_s: int) -> None:
        self._client = client
        self._keys = keys
        self._ttl_s = ttl_s
        self._held: dict[RemoteSession, Lease] = {}
        self._tasks = Tasks()

    async def open(self, name: str, holder: int) -> RemoteSession | None:
        """None while a session of that name is alive."""
        now = asyncio.get_running_loop().time
        granted_at = now()
        lease = await self._client.grant(self._ttl_s)
        key = self._keys.session(name)
        try:
            reply = await self._client.txn(
                [is_absent(key)], [put(key, str(holder).encode(), lease.id)], [get(key)]
            )
        except BaseException:
            self._tasks.spawn(self._revoke(lease))
            raise
        revision = reply.txn.revision
        if not reply.txn.is_taken:
            found = reply.txn.ranges[0].first
            if found is None or found.lease_id != lease.id:
                self._tasks.spawn(self._revoke(lease))
                return None
            revision = found.create_revision  # an attempt whose response was lost succeeded
        live = LiveSession(name, holder, revision)
        session = RemoteSession(live, granted_at + OWN_SHARE * lease.ttl_s, self._forget)
        self._held[session] = lease
        self._tasks.spawn(self._renew(session, lease))
        return session

    async def _renew(self, session: RemoteSession, lease: Lease) -> None:
        now, ttl_s = asyncio.get_running_loop().time, lease.ttl_s
        limits = CallLimits(OWN_SHARE * ttl_s, ttl_s / 6)
        while session.is_alive:
            await asyncio.sleep(ttl_s / RENEWALS_PER_TTL)
            sent_at = now()
            try:
                left_s = await self._client.keep_alive(lease.id, limits)
            except BrokerError as error:
                logger.warning(
                    "cannot renew session %s at etcd; this broker stops acting when it runs out: %s",
                    session.live.name,
                    error,
                )
                continue
            if not left_s:
                break
            session.renewed(sent_at + OWN_SHARE * left_s)
        self._held.pop(session, None)
        session.settle()

    def _forget(self, session: RemoteSession) -> None:
        """The holder ends its session: etcd need not wait for the lease."""
        lease = self._held.pop(session, None)
        if lease is not None:
            self._tasks.spawn(self._revoke(lease))

    async def _revoke(self, lease: Lease) -> None:
        """A lease that cannot be revoked runs out by itself."""
        try:
            await self._client.revoke(lease.id, REVOKE_LIMITS)
        except BrokerError as error:
            logger.warning("cannot end a session at etcd; it runs out within %d s: %s", lease.ttl_s, error)

    async def close(self) -> None:
        """End all sessions of this broker."""
        held, self._held = self._held, {}
        await self._tasks.stop()
        for session in held:
            session.settle()
        await asyncio.gather(*(self._revoke(lease) for lease in held.values()))

    async def end(self, live: LiveSession) -> None:
        """End a session of any broker; nothing happens if it has ended."""
        found = (await self._client.read(get(self._keys.session(live.name)))).ranges[0].first
        if found is not None and found.create_revision == live.number:
            await self._client.revoke(found.lease_id)

    async def follow(self) -> AsyncIterator[tuple[LiveSession, ...]]:
        """All live sessions, and again after changes."""
        keys = self._keys
        told: tuple[LiveSession, ...] | None = None
        while True:
            live, revision = await self._list()
            if live != told:
                told = live
                yield live
            stream = await self._client.watch(keys.sessions_start, keys.sessions_end, revision + 1)
            try:
                while True:
                    message = await stream.next(WATCH_IDLE_S_MAX)
                    if message is not None and message.cancel_reason is not None:
                        await asyncio.sleep(WATCH_PAUSE_S)
                        break
                    if message is not None and not message.changes:
                        continue
                    live, _ = await self._list()
                    if live != told:
                        told = live
                        yield live
                        if message is None:  # the watch should have told: its member has stopped running
                            self._client.leave(stream.address)
                            break
            finally:
                stream.close()

    async def _list(self) -> tuple[tuple[LiveSession, ...], int]:
        """All live sessions, oldest first, and the revision at which they were read."""
        keys = self._keys
        txn = await self._client.read(get(keys.sessions_start, keys.sessions_end))
        live = (self._live(kv) for kv in txn.ranges[0].kvs)
        return tuple(sorted(live, key=lambda one: one.number)), txn.revision

    def _live(self, kv: KeyValue) -> LiveSession:
        if not kv.value.isdigit():
            raise TornSegment(
                f"{kv.key.decode(errors='replace')} in etcd holds {kv.value[:40]!r}, not a broker id"
            )
        return LiveSession(self._keys.session_name(kv.key), int(kv.value), kv.create_revision)
