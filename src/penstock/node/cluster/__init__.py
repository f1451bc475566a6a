"""State shared by all brokers of a cluster: the metadata log as a port, its storage backends, and the catalog on
top."""
