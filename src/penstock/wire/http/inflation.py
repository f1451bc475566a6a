"""Decompresses gzip bodies in steps and within a limit. The caller chooses the thread. No I/O."""

from __future__ import annotations

import zlib

from penstock.core.errors import InvalidRequest, TooLarge

CODINGS = ("gzip", "x-gzip")
"""Supported values of Content-Encoding, besides `identity`."""

_GZIP_ONLY = 16 + zlib.MAX_WBITS
_INPUT_BYTES = 1 << 16
_OUTPUT_BYTES = 1 << 18


class Inflation:
    """One body. Call `run` until it returns True, then read `content`."""

    def __init__(self, packed: bytes, bytes_max: int) -> None:
        self._packed = memoryview(packed)
        self._bytes_max = bytes_max
        self._decoder = zlib.decompressobj(_GZIP_ONLY)
        self._parts: list[bytes] = []
        self._position = 0
        self._size = 0

    def run(self, bytes_max: int | None = None) -> bool:
        """Decompress to the end or up to a number of bytes; True at the end. Raises InvalidRequest or TooLarge."""
        try:
            while not self._decoder.eof:
                if bytes_max is not None and self._size >= bytes_max:
                    return False
                self._step()
        except zlib.error as error:
            raise InvalidRequest(f"the body is not valid gzip: {error}") from None
        if self._decoder.unused_data or self._position < len(self._packed):
            raise InvalidRequest("the body has data after the end of its gzip stream")
        return True

    def _step(self) -> None:
        """Small slices limit the copies that zlib makes of unused input."""
        piece = self._decoder.unconsumed_tail or self._packed[self._position : self._position + _INPUT_BYTES]
        if not piece:
            raise InvalidRequest("the gzip stream of the body is truncated")
        if piece is not self._decoder.unconsumed_tail:
            self._position += len(piece)
        made = self._decoder.decompress(piece, min(_OUTPUT_BYTES, self._bytes_max - self._size + 1))
        self._size += len(made)
        if self._size > self._bytes_max:
            self._parts.clear()
            raise TooLarge(f"the decompressed body is over the limit of {self._bytes_max} bytes")
        self._parts.append(made)

    def content(self) -> bytes:
        return b"".join(self._parts)
