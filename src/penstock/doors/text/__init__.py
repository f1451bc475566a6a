"""The text door: lines that a person can type."""
