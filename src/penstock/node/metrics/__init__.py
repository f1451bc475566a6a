"""What a node measures of itself, and how it is shown to Prometheus. Never changes what the node does."""
