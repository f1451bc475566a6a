"""The brokers of the comparison: find or install them, start them on one CPU. Sends no load."""
