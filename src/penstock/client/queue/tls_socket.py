"""TLS over a blocking socket that one thread reads while others write: Python's own TLS socket does not allow that."""

from __future__ import annotations

import socket
import ssl
import threading

from penstock.client.access import Encryption
from penstock.client.tls import tls_failure
from penstock.core.model import Address

READ_BYTES = 1 << 16


class TlsSocket:
    """The part of a socket that a queue connection uses. `recv` returns None if no whole record has arrived."""

    def __init__(self, raw: socket.socket, address: Address, encryption: Encryption) -> None:
        """Completes the handshake. Raises TlsFailed, OSError."""
        self._raw = raw
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = encryption.context().wrap_bio(
            self._incoming, self._outgoing, server_hostname=address.host
        )
        self._tls_lock = threading.Lock()
        self._send_lock = threading.Lock()
        try:
            self._shake_hands()
        except ssl.SSLError as error:
            raise tls_failure(address, error) from error

    def fileno(self) -> int:
        return self._raw.fileno()

    def sendall(self, data: bytes) -> None:
        """Raises OSError."""
        left = memoryview(data)
        with self._send_lock:
            while left:
                with self._tls_lock:
                    left = left[self._tls.write(left) :]
                self._flush()

    def recv(self, size: int) -> bytes | None:
        """Decrypted bytes; empty at the end of the connection. Raises OSError."""
        encrypted = self._raw.recv(size)
        if not encrypted:
            return b""
        parts: list[bytes] = []
        is_over = False
        with self._tls_lock:
            self._incoming.write(encrypted)
            try:
                while part := self._tls.read(READ_BYTES):
                    parts.append(part)
                is_over = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLZeroReturnError:
                is_over = True
            has_answer = bool(self._outgoing.pending)
        if has_answer:  # such as to a key update
            with self._send_lock:
                self._flush()
        return b"".join(parts) if parts or is_over else None

    def close(self) -> None:
        self._raw.close()

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                encrypted = self._raw.recv(READ_BYTES)
                if not encrypted:
                    raise ConnectionResetError(
                        "closed during the TLS handshake: check that this port expects TLS"
                    ) from None
                self._incoming.write(encrypted)
            else:
                self._flush()
                return

    def _flush(self) -> None:
        """Send what is encrypted. The caller holds the send lock."""
        with self._tls_lock:
            content = self._outgoing.read()
        if content:
            self._raw.sendall(content)
