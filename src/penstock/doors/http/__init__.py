"""The HTTP door: REST, WebSocket tails, metrics and health."""
