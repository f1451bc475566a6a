"""The few structures of X.509 that Penstock reads itself. No I/O."""
