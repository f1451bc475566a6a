"""The text door: a line protocol for telnet and scripts."""
