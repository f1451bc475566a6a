"""Authorization, stored credentials and quotas as values and pure decisions. No I/O, no clock, no state of its own."""
