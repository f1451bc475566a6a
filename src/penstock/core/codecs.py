"""Numbers and names of the compression codecs, as Kafka defines them; compression.py compresses."""

from __future__ import annotations

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

CODEC_NAMES: dict[int, str] = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
"""Codec names by the lowest three attribute bits of a batch; other values are undefined."""
