"""Kafka's compression codecs: bytes in, bytes out. Never decompresses more than the caller allows.

The cap is enforced during decompression: a small batch that claims or reaches gigabytes costs at most the cap.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

import cramjam

from penstock.core.codecs import CODEC_NAMES, GZIP, LZ4, NONE, SNAPPY, ZSTD
from penstock.core.errors import CorruptBatch, TooLarge, UnsupportedCompression
from penstock.core.limits import (
    DECOMPRESSED_BYTES_MAX,
    DECOMPRESSED_BYTES_MIN,
    DECOMPRESSED_FACTOR_MAX,
    GZIP_MEMBERS_MAX,
    STORED_DECOMPRESSED_FACTOR_MAX,
)

Buffer = bytes | bytearray | memoryview

_GZIP_WINDOW_BITS = 31
_LZ4_LEVEL = 1
_ZSTD_LEVEL = 3

_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_HEADERS = (_XERIAL_HEADER, _XERIAL_MAGIC + struct.pack("<ii", 1, 1))
"""Some clients write the versions in the wrong byte order, and all readers accept that."""
_XERIAL_BLOCK_BYTES = 32 * 1024
_INT32 = struct.Struct(">i")

_BUFFER_FULL = "failed to write whole buffer"
_BUFFER_BYTES_MIN = 64 * 1024
_BUFFER_GUESS_RATIO = 8
_BUFFER_GROWTH = 4


def compress(codec: int, data: Buffer) -> bytes:
    """Compress in a format that all Kafka clients can read."""
    check_codec(codec)
    return _COMPRESS[codec](data)


def decompress(codec: int, data: Buffer, bytes_max: int) -> bytes:
    """Decompress up to `bytes_max`, else raise TooLarge. Raises CorruptBatch for invalid input."""
    check_codec(codec)
    return _DECOMPRESS[codec](data, min(bytes_max, DECOMPRESSED_BYTES_MAX))


def decompressed_bytes_max(compressed_bytes_max: int) -> int:
    """The maximum decompressed size where no batch may be larger than `compressed_bytes_max`.

    It does not depend on the size of the batch itself, which a sender can inflate with skippable frames.
    """
    return min(
        DECOMPRESSED_BYTES_MAX, max(DECOMPRESSED_BYTES_MIN, DECOMPRESSED_FACTOR_MAX * compressed_bytes_max)
    )


def stored_decompressed_bytes_max(compressed_bytes_max: int) -> int:
    """The same for a batch in the log."""
    return min(
        DECOMPRESSED_BYTES_MAX,
        max(DECOMPRESSED_BYTES_MIN, STORED_DECOMPRESSED_FACTOR_MAX * compressed_bytes_max),
    )


def check_codec(codec: int) -> int:
    """Returns the codec, or raises UnsupportedCompression when no codec has that number."""
    if codec not in CODEC_NAMES:
        known = ", ".join(f"{number} {name}" for number, name in CODEC_NAMES.items())
        raise UnsupportedCompression(f"unknown compression codec {codec}; supported are {known}")
    return codec


def _too_large(codec: int, data: Buffer, cap: int) -> TooLarge:
    return TooLarge(f"{len(data)} bytes of {CODEC_NAMES[codec]} unfold to more than the {cap} bytes allowed")


def _corrupt(codec: int, reason: object) -> CorruptBatch:
    return CorruptBatch(f"not {CODEC_NAMES[codec]}: {reason}")


def _copy(data: Buffer, cap: int) -> bytes:
    if len(data) > cap:
        raise TooLarge(f"{len(data)} bytes of records exceed the limit of {cap}")
    return bytes(data)


def _gzip(data: Buffer) -> bytes:
    deflate = zlib.compressobj(wbits=_GZIP_WINDOW_BITS)
    return deflate.compress(data) + deflate.flush()


def _gunzip(data: Buffer, cap: int) -> bytes:
    members: list[bytes] = []
    room = cap
    rest: Buffer = data
    while not members or len(rest):
        if len(members) == GZIP_MEMBERS_MAX:
            raise _corrupt(GZIP, f"more than {GZIP_MEMBERS_MAX} members")
        inflate = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        try:
            member = inflate.decompress(rest, room + 1)
        except zlib.error as error:
            raise _corrupt(GZIP, error) from None
        if len(member) > room:
            raise _too_large(GZIP, data, cap)
        if not inflate.eof:
            raise _corrupt(GZIP, "the last member is truncated")
        members.append(member)
        room -= len(member)
        rest = inflate.unused_data
    return members[0] if len(members) == 1 else b"".join(members)


def _snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _unsnappy(data: Buffer, cap: int) -> bytes:
    view = memoryview(data)
    try:
        size = sum(cramjam.snappy.decompress_raw_len(block) for block in _snappy_blocks(view))
        if size > cap:
            raise _too_large(SNAPPY, data, cap)
        buffer = bytearray(size)
        target = memoryview(buffer)
        for block in _snappy_blocks(view):
            target = target[cramjam.snappy.decompress_raw_into(block, target) :]
    except cramjam.DecompressionError as error:
        raise _corrupt(SNAPPY, error) from None
    if len(target):
        raise _corrupt(SNAPPY, f"{len(target)} of {size} bytes are missing")
    return bytes(buffer)


def _snappy_blocks(view: memoryview) -> Iterator[memoryview]:
    if not len(view):
        raise _corrupt(SNAPPY, "no data")
    return _xerial_blocks(view) if view[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC else iter((view,))


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    """The raw blocks of the framing that Kafka's own client writes; framed streams may follow one another."""
    position, end = 0, len(view)
    while position < end:
        if view[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            if view[position : position + len(_XERIAL_HEADER)] not in _XERIAL_HEADERS:
                raise _corrupt(SNAPPY, "the header is truncated or of an unknown version")
            position += len(_XERIAL_HEADER)
            continue
        if end - position < _INT32.size:
            raise _corrupt(SNAPPY, "a block length is truncated")
        length: int = _INT32.unpack_from(view, position)[0]
        position += _INT32.size
        if not 0 < length <= end - position:
            raise _corrupt(SNAPPY, f"a block of {length} bytes exceeds the {end - position} bytes left")
        yield view[position : position + length]
        position += length


def _lz4(data: Buffer) -> bytes:
    # Blocks must be independent: Kafka's Java client cannot read linked ones.
    frame = cramjam.lz4.Compressor(level=_LZ4_LEVEL, content_checksum=False, block_linked=False)
    frame.compress(bytes(data))
    return bytes(frame.finish())


def _unlz4(data: Buffer, cap: int) -> bytes:
    return _decompress_frames(LZ4, cramjam.lz4.decompress_into, data, cap)


def _zstd(data: Buffer) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL))


def _unzstd(data: Buffer, cap: int) -> bytes:
    return _decompress_frames(ZSTD, cramjam.zstd.decompress_into, data, cap)


def _decompress_frames(codec: int, into: Callable[[Buffer, bytearray], int], data: Buffer, cap: int) -> bytes:
    """Decompress into a buffer and retry with a larger one while it is too small: frames may not declare their size."""
    size = min(cap, max(_BUFFER_BYTES_MIN, len(data) * _BUFFER_GUESS_RATIO))
    while True:
        buffer = bytearray(size)
        try:
            length = into(data, buffer)
        except cramjam.DecompressionError as error:
            if _BUFFER_FULL not in str(error):
                raise _corrupt(codec, error) from None
            if size == cap:
                raise _too_large(codec, data, cap) from None
            size = min(cap, size * _BUFFER_GROWTH)
        else:
            del buffer[length:]
            return bytes(buffer)


_COMPRESS: dict[int, Callable[[Buffer], bytes]] = {
    NONE: bytes,
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: _lz4,
    ZSTD: _zstd,
}
_DECOMPRESS: dict[int, Callable[[Buffer, int], bytes]] = {
    NONE: _copy,
    GZIP: _gunzip,
    SNAPPY: _unsnappy,
    LZ4: _unlz4,
    ZSTD: _unzstd,
}
