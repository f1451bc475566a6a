"""Services used by every part of a node: files, clock, worker threads, loop slices, meters."""
