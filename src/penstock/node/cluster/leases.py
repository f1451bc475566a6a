"""The sessions of a shared metadata store: each ends unless its holder renews it in time. Grants no rights.

They survive a restart of the store: after it, each holder has the full time to renew. Otherwise every crash of the
store would fence every broker of the cluster. The file is not synced: it has to survive the death of a process only.
"""

from __future__ import annotations

import asyncio
import logging

from penstock.core.errors import BrokerError
from penstock.core.log import checksummed_file
from penstock.node.cluster.metadata_log import SESSION_TTL_S, LiveSession
from penstock.node.cluster.sessions import Sessions
from penstock.node.runtime.runtime import Runtime

logger = logging.getLogger("penstock.sessions")

SESSIONS_FILE = "sessions.json"
GRACE_SHARE = 1 / 8
"""A session that is due ends after this share of its time more: if this process was stalled, it first reads the
renewals that arrived meanwhile."""


class Leases:
    """The table of sessions with their time limits."""

    def __init__(self, runtime: Runtime, ttl_s: float = SESSION_TTL_S) -> None:
        self._runtime = runtime
        self._ttl_s = ttl_s
        self._loop = asyncio.get_running_loop()
        self._timers: dict[LiveSession, asyncio.TimerHandle] = {}
        self._tokens: dict[LiveSession, bytes] = {}
        # The clock keeps numbers increasing even if the file is lost.
        self.table = Sessions(last_number=runtime.clock.now_ms())
        self._load()

    @property
    def ttl_ms(self) -> int:
        return round(self._ttl_s * 1_000)

    def open(self, name: str, holder: int, token: bytes) -> LiveSession | None:
        """Open a session; None while another of that name is alive. The token identifies a repeated request."""
        earlier = self.table.find(name)
        if earlier is not None:
            return earlier if self._tokens[earlier] == token and self.renew(earlier) else None
        session = self.table.open(name, holder)
        assert session is not None
        self._grant(session.live, token)
        self._save()
        logger.info("session opened", extra=_log_fields(session.live))
        return session.live

    def renew(self, live: LiveSession) -> bool:
        """Extend a session by its full time; False if it has ended."""
        timer = self._timers.get(live)
        if timer is None:
            return False
        timer.cancel()
        self._arm(live)
        return True

    def end(self, live: LiveSession) -> None:
        """End a session, if it is alive."""
        timer = self._timers.pop(live, None)
        if timer is not None:
            timer.cancel()
            del self._tokens[live]
            self.table.end(live)
            self._save()

    def close(self) -> None:
        """Stop the clock. The sessions stay on file for the next run."""
        for timer in self._timers.values():
            timer.cancel()

    def _grant(self, live: LiveSession, token: bytes) -> None:
        self._tokens[live] = token
        self._arm(live)

    def _arm(self, live: LiveSession) -> None:
        self._timers[live] = self._loop.call_later(self._ttl_s, self._suspect, live)

    def _suspect(self, live: LiveSession) -> None:
        self._timers[live] = self._loop.call_later(self._ttl_s * GRACE_SHARE, self._expire, live)

    def _expire(self, live: LiveSession) -> None:
        logger.warning("session expired: its holder has not renewed it", extra=_log_fields(live))
        self.end(live)

    # -- across restarts

    def _load(self) -> None:
        try:
            content = checksummed_file.read(self._runtime.files, SESSIONS_FILE)
        except BrokerError as error:
            logger.warning(
                "cannot read the sessions of the last run; brokers must open theirs again: %s", error
            )
            return
        if content is None:
            return
        self.table.last_number = max(self.table.last_number, content["last_number"])
        for name, holder, number, token in content["sessions"]:
            session = self.table.restore(LiveSession(name, holder, number))
            self._grant(session.live, bytes.fromhex(token))

    def _save(self) -> None:
        rows = [[*live, self._tokens[live].hex()] for live in self.table.live]
        content = {"last_number": self.table.last_number, "sessions": rows}
        try:
            checksummed_file.write(self._runtime.files, SESSIONS_FILE, content, sync=False)
        except BrokerError as error:
            logger.error(
                "cannot save the live sessions; a restart of this process would end those opened since: %s",
                error,
            )


def _log_fields(live: LiveSession) -> dict[str, object]:
    return {"session": live.name, "holder": live.holder, "number": live.number}
