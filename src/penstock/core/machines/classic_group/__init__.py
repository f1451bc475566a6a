"""Consumer groups of the classic protocol, whose members assign partitions themselves."""
