"""The connection layer under every door: one gate, a listener per port, connections, framing. Speaks no protocol."""
