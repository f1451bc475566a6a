"""A world in one thread: loop, network, disk and workers on virtual time. Never touches the real ones."""
