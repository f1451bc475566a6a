"""The queue door: durable subscriptions, binary frames. docs/protocols/queue.md is its book."""
