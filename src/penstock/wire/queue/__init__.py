"""The queue door's frames and properties: bytes to values and back. No I/O; docs/protocols/queue.md tells all of it."""
