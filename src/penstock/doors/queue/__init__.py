"""The queue door: durable subscriptions over binary frames; specified in docs/protocols/queue.md."""
