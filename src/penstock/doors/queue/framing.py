"""Frame boundaries of the queue protocol, for clients of this door and for the doors of other brokers."""

from __future__ import annotations

from penstock.node.connections.framing import UNKNOWN
from penstock.wire.queue.frames import LENGTH_BYTES, frame_bytes


class QueueFraming:
    """Frames whose first four bytes contain the size of the whole frame."""

    prefix_bytes = 0

    def size(self, buffer: bytearray, start: int, end: int, bytes_max: int) -> int:
        return UNKNOWN if end - start < LENGTH_BYTES else frame_bytes(buffer, start, bytes_max)


QUEUE_FRAMING = QueueFraming()
