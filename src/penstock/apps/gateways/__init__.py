"""gRPC services in front of a cluster: own processes that use the Python client, never inside a broker."""
