"""Other brokers of the cluster: links for calls between brokers, and gossip about who seems to be there."""
