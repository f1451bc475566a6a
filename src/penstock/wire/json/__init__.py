"""The codec of the JSON door's frames, specified in docs/protocols/json.md. No I/O."""
