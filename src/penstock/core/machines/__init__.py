"""Decide/apply machines: `decide_*` reads and never writes, `apply` writes and never fails."""
