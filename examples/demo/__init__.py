"""The demo, one scenario per module. Each starts its own brokers on free ports and cleans up."""
