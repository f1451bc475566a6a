"""Names inside SASL messages: `=2C` stands for a comma and `=3D` for an equals sign (RFC 5801)."""

from __future__ import annotations

import re

from penstock.wire.sasl.steps import malformed

_ESCAPE = re.compile(r"=(..)?", re.DOTALL)
_ESCAPES = {"=2C": ",", "=3D": "="}


def decode_name(mechanism: str, text: str) -> str:
    """Raises NotAuthenticated on an unknown escape."""
    if "=" not in text:
        return text

    def unescape(match: re.Match[str]) -> str:
        if match[0] not in _ESCAPES:
            raise malformed(mechanism, "a name has an invalid escape; only =2C and =3D are allowed")
        return _ESCAPES[match[0]]

    return _ESCAPE.sub(unescape, text)
