"""What one replica of a partition is made of: its syncs, its waits, its upkeep. `node/partition` is the owner."""
