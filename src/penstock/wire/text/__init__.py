"""The text door's lines: bytes to commands, answers to bytes. No I/O; docs/protocols/text.md tells all of it."""
