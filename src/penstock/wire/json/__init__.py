"""The JSON door's frames: bytes to fields, answers to bytes. No I/O; docs/protocols/json.md tells all of it."""
