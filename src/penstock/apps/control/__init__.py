"""The coordinator of a local cluster, as people and programs see it: services, their health, and commands."""
