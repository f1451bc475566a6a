"""A shop's orders: from a topic to a checked table, bad ones aside, revenue per minute back to a topic."""
