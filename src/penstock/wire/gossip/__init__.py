"""Gossip packets between brokers: signed, replay-protected datagrams of at most 1,400 bytes. No I/O."""
