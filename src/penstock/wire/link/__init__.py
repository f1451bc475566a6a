"""How two brokers prove to each other that they belong to one cluster, before anything else is said on a link."""
