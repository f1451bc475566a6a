"""The coordinator as a terminal sees it, in the same process. `remote_peer` is the same over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from penstock.apps.control.console import Console


class Reply(NamedTuple):
    """What one line gave."""

    text: str
    leaves: bool = False


class ConsolePeer(Protocol):
    """A coordinator that runs lines."""

    @property
    def ends_cluster(self) -> bool:
        """Whether leaving with Ctrl-C or Ctrl-D is a request to stop the cluster."""

    @property
    def names(self) -> Sequence[str]:
        """Services, for completion."""

    def health(self) -> Mapping[str, str]:
        """Health by service, as far as it is known; answers at once."""

    async def ask(self, line: str) -> Reply:
        """Run a line. Never raises because of what the line says."""


class LocalPeer:
    """The services of this process, whose terminal needs no token."""

    ends_cluster = True

    def __init__(self, console: Console) -> None:
        self._console = console

    @property
    def names(self) -> Sequence[str]:
        return self._console.services.names

    def health(self) -> Mapping[str, str]:
        return {one.name: one.health.value for one in self._console.services.status()}

    async def ask(self, line: str) -> Reply:
        result, as_json = await self._console.answer(line, is_trusted=True)
        return Reply(result.render(as_json=as_json), result.leaves)
