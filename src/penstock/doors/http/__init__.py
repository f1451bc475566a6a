"""The HTTP door: REST, WebSocket tails, metrics and health. Translates to the waist and back, and does nothing else."""
