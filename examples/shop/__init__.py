"""Shop pipeline: validated orders to a table, bad ones to dead letters, revenue per minute back to a topic."""
