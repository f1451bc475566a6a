"""Where replicas should live: the consistent hashing ring and the moves that balance a cluster. Proposes only."""
