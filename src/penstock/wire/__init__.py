"""Codecs of all protocols: bytes to messages and back. No I/O."""
