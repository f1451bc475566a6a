"""Small state files: a checksum line, then JSON. A file that fails its checksum raises TornSegment.

The checksum also covers the file's kind, so that one file is never mistaken for another.
"""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

from penstock.core.errors import TornSegment
from penstock.core.ports import Files


def write(files: Files, path: str, content: Any, *, sync: bool = True) -> None:
    """Replace the file. With `sync` a crash leaves the old or the new content; without, `read` detects a torn file."""
    body = json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
    files.write_whole(path, b"%08x\n%s\n" % (_checksum(path, body), body), sync=sync)


def read(files: Files, path: str) -> Any:
    """The content, or None if there is no file. Raises TornSegment if the checksum does not match."""
    raw = files.read_whole(path)
    if raw is None:
        return None
    head, _, body = raw.partition(b"\n")
    body = body.removesuffix(b"\n")
    if head != b"%08x" % _checksum(path, body):
        raise TornSegment(f"{path} is damaged: its checksum does not match")
    return json.loads(body)


def _checksum(path: str, body: bytes) -> int:
    """The kind of a file is its name without a leading offset."""
    kind = path.rpartition("/")[2].lstrip("0123456789")
    return crc32(body, crc32(kind.encode()))
