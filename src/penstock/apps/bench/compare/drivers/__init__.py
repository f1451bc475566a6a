"""One driver per protocol: bare sockets behind the interface of `driver`, so that one row runs on all brokers."""
