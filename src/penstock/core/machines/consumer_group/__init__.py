"""Consumer groups of KIP-848, whose coordinator assigns partitions, and conversion from and to classic groups."""
