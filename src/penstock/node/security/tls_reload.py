"""Reloads TLS files that change. New connections use the new files; those that are open keep their session.

`ReloadingContext` is given to the server once; `CertificateReload.poll` looks at the files and exchanges what it hands
out. Files that cannot be used leave the old ones in place, with one log line.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.core.errors import InvalidConfig
from penstock.core.ports import Clock
from penstock.node.runtime.workers import Workers, run_blocking
from penstock.node.security.tls_material import TlsPaths, inspect_material

logger = logging.getLogger("penstock.security")

POLL_S = 5.0
EXPIRY_DAYS = (30, 7, 1)
"""A certificate is reported once for each of these numbers of days before it expires."""

MakeContext = Callable[[datetime], ssl.SSLContext]
_Stamp = tuple[tuple[int, ...] | None, ...]


class ReloadingContext(ssl.SSLContext):
    """A context that hands each new connection to another one, `current`. It has no certificate itself.

    asyncio and uvloop wrap every accepted connection with `wrap_bio`, so that no listener needs to be reopened.
    """

    current: ssl.SSLContext

    def __new__(cls, current: ssl.SSLContext) -> ReloadingContext:
        self = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        self.current = current
        return self

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        return self.current.wrap_bio(*args, **kwargs)

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        return self.current.wrap_socket(*args, **kwargs)


class CertificateReload:
    """The files of one context. `make` creates it for a point in time, and raises InvalidConfig."""

    def __init__(self, paths: TlsPaths, make: MakeContext, clock: Clock) -> None:
        """Raises InvalidConfig if the files cannot be used at the start."""
        self._paths = paths
        self._make = make
        self._clock = clock
        self._loaded = self._stamp()
        self._last_seen: _Stamp = self._loaded
        self._failed: _Stamp | None = None
        self.context = ReloadingContext(make(self._now()))
        self.reloads = 0
        """How many times new files were taken."""
        self.failures = 0
        """How many times new files could not be used."""
        self._warned_days: int | None = None
        self._not_after = self._expiry()

    @property
    def not_after(self) -> datetime | None:
        """When the certificate in use expires; None if there is none."""
        return self._not_after

    def poll(self) -> bool:
        """Look at the files, and take new ones once they no longer change. True if they were taken.

        Blocks for a few milliseconds. Certificate and key are two files: between two polls both must be the same, so
        that half of an update is not mistaken for a broken one.
        """
        self._warn_before_expiry()
        stamp = self._stamp()
        last_seen, self._last_seen = self._last_seen, stamp
        if stamp != last_seen or stamp in (self._loaded, self._failed):
            return False
        try:
            context, not_after = self._make(self._now()), self._expiry()
        except InvalidConfig as error:
            if stamp != self._stamp():
                return False  # they changed meanwhile: the next poll looks again
            self._failed = stamp
            self.failures += 1
            logger.warning(
                "cannot use the new TLS files, the old ones stay in use: %s", error, extra=self._context()
            )
            return False
        self.context.current = context
        self._loaded, self._failed, self._warned_days = stamp, None, None
        self._not_after = not_after
        self.reloads += 1
        logger.info(
            "reloaded TLS files; the certificate is valid until %s", self._not_after, extra=self._context()
        )
        return True

    async def watch(self, workers: Workers, interval_s: float = POLL_S) -> None:
        """Poll until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            await run_blocking(workers, self.poll)

    def _stamp(self) -> _Stamp:
        return tuple(map(_stamp_of, self._paths.listed()))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)

    def _expiry(self) -> datetime | None:
        chain = inspect_material(self._paths, self._now()).chain
        return min((one.not_after for one in chain), default=None)

    def _warn_before_expiry(self) -> None:
        if self._not_after is None:
            return
        days = (self._not_after - self._now()).days
        reached = [one for one in EXPIRY_DAYS if days < one]
        if reached and (self._warned_days is None or min(reached) < self._warned_days):
            self._warned_days = min(reached)
            logger.warning(
                "the TLS certificate expires on %s: renew it; new files are taken without a restart",
                self._not_after,
                extra=self._context(),
            )

    def _context(self) -> dict[str, object]:
        return {"path": str(self._paths.certificate or self._paths.authorities or "")}


def _stamp_of(path: Path) -> tuple[int, ...] | None:
    """What changes with a file; None if it is missing. Follows links: a mounted secret is updated by one."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
