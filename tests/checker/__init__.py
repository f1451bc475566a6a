"""A history checker for logs: what clients did and saw goes in, anomalies come out. Never asks the broker itself."""
