"""Load for any Kafka address, as `penstock bench` makes it: what is sent, when, and how long it took. Never prints."""
