"""The load of `penstock bench produce`, `consume`, `e2e` and `queue`, for any Kafka broker. Prints nothing."""
