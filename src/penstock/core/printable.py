"""Text that is safe to show: whatever could move a cursor, end a line or hide itself is written out. Pure."""

from __future__ import annotations


def escape(text: str) -> str:
    """The same text with line breaks, terminal escapes and other invisible characters written out, as `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
