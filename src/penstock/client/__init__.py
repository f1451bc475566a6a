"""Python clients: shared options, errors and values here; one folder per protocol stack. Never imports the node."""
