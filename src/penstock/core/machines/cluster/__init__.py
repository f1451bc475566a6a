"""The cluster as state: registered brokers, and leader, replicas and moves of every partition."""
