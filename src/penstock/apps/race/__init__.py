"""The race: Penstock beside the brokers that people would pick instead, in one run. Never compares across runs."""
