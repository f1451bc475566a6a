"""What every part of a node stands on: files, clock, worker threads, time slices of the loop, meters."""
