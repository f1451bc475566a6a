"""Numbers and names of the compression codecs, as Kafka defines them. Compresses nothing."""

from __future__ import annotations

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

CODEC_NAMES: dict[int, str] = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
"""What the three lowest attribute bits of a batch mean; the other values mean nothing."""
