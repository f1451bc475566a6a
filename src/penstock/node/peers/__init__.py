"""What brokers of a cluster say to each other outside of the metadata log."""
