"""Broken bytes for everything that reads bytes. `python -m fuzz --seconds 60`. Never part of the package."""
