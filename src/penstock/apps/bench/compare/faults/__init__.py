"""What is done to the brokers of a cluster while clients write: kills, restarts, a replica that was away."""
