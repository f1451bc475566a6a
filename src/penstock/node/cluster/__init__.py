"""The state that all brokers of a cluster share: the metadata log as a port, its grounds, and the catalog on top."""
