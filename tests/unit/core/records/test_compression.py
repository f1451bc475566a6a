"""Each codec against the writers and readers of other clients, against its cap, and against broken input."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib

import aiokafka.codec
import cramjam
import kafka.codec
import pytest

from penstock.core import limits
from penstock.core.codecs import CODEC_NAMES, GZIP, LZ4, SNAPPY, ZSTD
from penstock.core.errors import CorruptBatch, TooLarge, UnsupportedCompression
from penstock.core.records import compression
from penstock.core.records.compression import check_codec, compress, decompress, decompressed_bytes_max

CODECS = (GZIP, SNAPPY, LZ4, ZSTD)
PLENTY = 64 * 2**20
TEXT = b"".join(b"order %d of customer %d\n" % (n, n * 7919 % 1000) for n in range(20_000))
NOISE = bytes(n * n * 31 % 251 for n in range(100_000))

AIOKAFKA = {
    GZIP: (aiokafka.codec.gzip_encode, aiokafka.codec.gzip_decode),
    SNAPPY: (aiokafka.codec.snappy_encode, aiokafka.codec.snappy_decode),
    LZ4: (aiokafka.codec.lz4_encode, aiokafka.codec.lz4_decode),
    ZSTD: (aiokafka.codec.zstd_encode, aiokafka.codec.zstd_decode),
}


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, NOISE], ids=["empty", "one", "text", "noise"])
def test_what_goes_in_comes_out(codec: int, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed, PLENTY) == data
    assert decompress(codec, memoryview(packed), len(data)) == data
    assert compress(codec, memoryview(bytearray(data))) == packed


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"x", TEXT, NOISE], ids=["one", "text", "noise"])
def test_aiokafka_and_we_read_each_other(codec: int, data: bytes) -> None:
    theirs_encode, theirs_decode = AIOKAFKA[codec]
    assert decompress(codec, theirs_encode(data), PLENTY) == data
    assert theirs_decode(compress(codec, data)) == data


def test_kafka_python_and_we_read_each_others_gzip() -> None:
    assert decompress(GZIP, kafka.codec.gzip_encode(TEXT), PLENTY) == TEXT
    assert kafka.codec.gzip_decode(compress(GZIP, TEXT)) == TEXT


def test_snappy_is_written_as_kafkas_client_writes_it() -> None:
    assert compress(SNAPPY, TEXT) == aiokafka.codec.snappy_encode(TEXT)


def test_snappy_without_framing_is_read() -> None:
    assert decompress(SNAPPY, aiokafka.codec.snappy_encode(TEXT, xerial_compatible=False), PLENTY) == TEXT


def test_snappy_versions_in_the_wrong_byte_order_are_read() -> None:
    packed = compress(SNAPPY, TEXT)
    assert decompress(SNAPPY, packed[:8] + struct.pack("<ii", 1, 1) + packed[16:], PLENTY) == TEXT


@pytest.mark.parametrize("codec", CODECS)
def test_frames_may_follow_one_another(codec: int) -> None:
    assert decompress(codec, compress(codec, b"left ") + compress(codec, TEXT), PLENTY) == b"left " + TEXT


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("checksum", [False, True])
def test_lz4_of_any_flags_is_read(linked: bool, checksum: bool) -> None:
    frame = cramjam.lz4.Compressor(level=4, content_checksum=checksum, block_linked=linked)
    frame.compress(TEXT)
    assert decompress(LZ4, bytes(frame.finish()), PLENTY) == TEXT


def test_lz4_is_written_with_independent_blocks() -> None:
    flags = compress(LZ4, TEXT)[4]
    assert flags & 0x20, "the Java client reads no linked blocks"


def test_zstd_without_content_size_is_read_and_capped() -> None:
    frame = cramjam.zstd.Compressor(level=3)
    frame.compress(TEXT[:1000])
    packed = bytes(frame.flush())
    frame.compress(TEXT[1000:])
    packed += bytes(frame.finish())
    single_segment_or_size = packed[4] >> 5
    assert single_segment_or_size == 0, "this frame was meant to hide its size"
    assert decompress(ZSTD, packed, PLENTY) == TEXT
    with pytest.raises(TooLarge):
        decompress(ZSTD, packed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_the_cap_is_exact(codec: int) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(TooLarge, match=str(len(TEXT) - 1)):
        decompress(codec, packed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_the_cap_spans_frames(codec: int) -> None:
    packed = compress(codec, NOISE) * 3
    with pytest.raises(TooLarge):
        decompress(codec, packed, 3 * len(NOISE) - 1)


def _bomb(codec: int) -> bytes:
    zeros = bytes(2**20)
    if codec == GZIP:
        deflate = zlib.compressobj(9, wbits=31)
        return b"".join(deflate.compress(zeros) for _ in range(256)) + deflate.flush()
    if codec == SNAPPY:
        return b"\xff\xff\xff\xff\x0f" + bytes(100)
    return compress(codec, zeros) * 256


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_costs_no_more_than_the_cap(codec: int) -> None:
    bomb, cap = _bomb(codec), 4 * 2**20
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            decompress(codec, bomb, cap)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * cap


def test_room_goes_by_the_topic_and_not_by_the_batch() -> None:
    assert decompressed_bytes_max(1_000) == limits.DECOMPRESSED_BYTES_MIN
    assert decompressed_bytes_max(10**6) == limits.DECOMPRESSED_FACTOR_MAX * 10**6
    assert decompressed_bytes_max(2**31) == limits.DECOMPRESSED_BYTES_MAX


@pytest.mark.parametrize("codec", CODECS)
def test_input_cut_anywhere_is_corrupt(codec: int) -> None:
    packed = compress(codec, NOISE[:300])
    whole = 16 if codec == SNAPPY else None
    for end in range(len(packed)):
        if end == whole:
            continue  # a framed stream of no blocks is complete
        with pytest.raises(CorruptBatch):
            decompress(codec, packed[:end], PLENTY)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("tail", [b"\0", b"junk", b"\xff" * 9])
def test_what_follows_the_last_frame_is_corrupt(codec: int, tail: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, compress(codec, TEXT) + tail, PLENTY)


@pytest.mark.parametrize("length", [0, -1, 10**6, -(2**31)])
def test_a_snappy_block_length_is_never_trusted(length: int) -> None:
    with pytest.raises(CorruptBatch, match=str(length)):
        decompress(SNAPPY, compress(SNAPPY, b"")[:16] + struct.pack(">i", length) + b"\0", PLENTY)


def test_a_snappy_block_that_says_too_much_is_corrupt() -> None:
    with pytest.raises(CorruptBatch):
        decompress(SNAPPY, b"\x80\x01" + b"\x00a", PLENTY)


def test_endless_gzip_members_are_refused() -> None:
    member = gzip.compress(b"")
    assert decompress(GZIP, member * limits.GZIP_MEMBERS_MAX, PLENTY) == b""
    with pytest.raises(CorruptBatch, match="members"):
        decompress(GZIP, member * (limits.GZIP_MEMBERS_MAX + 1), PLENTY)


@pytest.mark.parametrize("codec", [-1, 5, 6, 7])
def test_a_codec_nobody_knows_is_refused(codec: int) -> None:
    with pytest.raises(UnsupportedCompression, match="4 zstd"):
        compress(codec, TEXT)
    with pytest.raises(UnsupportedCompression):
        decompress(codec, TEXT, PLENTY)
    with pytest.raises(UnsupportedCompression):
        check_codec(codec)


def test_every_codec_has_both_directions() -> None:
    assert set(compression._COMPRESS) == set(compression._DECOMPRESS) == set(CODEC_NAMES)
