"""Text that is safe to print: control and invisible characters are escaped."""

from __future__ import annotations


def escape(text: str) -> str:
    """The text with line breaks, terminal escapes and other invisible characters escaped, as `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
