"""What Python programs hold in their hands. Never imports the node."""
