"""What every door stands on: one gate for all, a listener per port, connections, frames. Never speaks a protocol."""
