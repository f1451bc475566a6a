"""The driver for NATS."""

from __future__ import annotations

from penstock.apps.bench.compare.drivers.nats import Lines, new_inbox


def test_every_reader_has_its_own_inbox() -> None:
    assert len({new_inbox() for _ in range(8)}) == 8


def test_lines_are_counted_wherever_reads_split_them() -> None:
    content = b"MSG a 1 3\r\nxyz\r\n" * 20 + b"PING\r\n" + b"MSG a 1 3\r\nxyz\r\n" * 30
    for cut in range(1, 40):
        lines = Lines()
        pieces = [content[at : at + cut] for at in range(0, len(content), cut)]
        assert sum(lines.messages(memoryview(piece)) for piece in pieces) == 50
