"""The codec between brokers and the coordinator that owns their metadata log, specified in
docs/protocols/metadata.md. No I/O."""
