"""The ladder of nouns: index, segment, log; beside it epochs, producers, retention and compaction."""
