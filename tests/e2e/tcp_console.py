"""A client of the coordinator's TCP console."""

from __future__ import annotations

import socket

from e2e.cluster_up import EXIT_S_MAX

PROMPT = b"\n> "


class TcpConsole:
    """A connection: a line in, the answer out."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), EXIT_S_MAX)
        self.greeting = self._read()

    def ask(self, line: str) -> str:
        self._socket.sendall(f"{line}\n".encode())
        return self._read()

    def _read(self) -> str:
        found = b""
        while not found.endswith(PROMPT):
            content = self._socket.recv(1 << 16)
            assert content, found
            found += content
        return found.removesuffix(PROMPT).decode()

    def close(self) -> None:
        self._socket.close()
