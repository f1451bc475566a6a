"""A partition's log: index, segment, log, with epochs, producers, retention and compaction."""
