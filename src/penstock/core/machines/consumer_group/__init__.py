"""Consumer groups of KIP-848, whose coordinator assigns partitions, and the conversion from and to classic groups."""
