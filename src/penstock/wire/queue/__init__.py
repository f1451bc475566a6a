"""The codec of the queue door's frames and properties, specified in docs/protocols/queue.md. No I/O."""
