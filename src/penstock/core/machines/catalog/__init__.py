"""The catalog of topics, configurations and producer-id blocks: its machine and its events."""
