"""Cluster membership by gossip: SWIM with Lifeguard. Produces hints; nothing here fences a broker. No I/O, no clock."""
