"""Distinguished names as Kafka prints them: RFC 2253 in the variant of Java's X500Principal. Parses no certificate.

The most specific part comes first. Attributes without a keyword in RFC 2253, such as an e-mail address, appear as
their object id with the encoded value in hexadecimal digits. ACLs and mapping rules of Kafka depend on this form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes that RFC 2253 names, by object id."""

_ESCAPED = frozenset(',=+<>#;"\\')
_SPACES = " \r"


class NameAttribute(NamedTuple):
    """One attribute of a name. `text` is None if the value is not a string; `encoded` is its DER."""

    oid: str
    text: str | None
    encoded: bytes


def format_name(rdns: Sequence[Sequence[NameAttribute]]) -> str:
    """The name of a certificate, whose parts come in the order of the encoding: the most general first."""
    return ",".join("+".join(map(_attribute, rdn)) for rdn in reversed(rdns))


def _attribute(attribute: NameAttribute) -> str:
    keyword = KEYWORDS.get(attribute.oid)
    if keyword is None or attribute.text is None:
        return f"{keyword or attribute.oid}=#{attribute.encoded.hex()}"
    return f"{keyword}={_escape(attribute.text)}"


def _escape(text: str) -> str:
    """As Java does it: also `=` and `#` are escaped everywhere, other than RFC 2253 asks for."""
    inner = text.strip(_SPACES)
    if not inner:
        return "".join(f"\\{char}" for char in text)
    lead, _, trail = text.partition(inner)
    escaped = "".join("\\00" if char == "\0" else f"\\{char}" if char in _ESCAPED else char for char in inner)
    return "".join(f"\\{char}" for char in lead) + escaped + "".join(f"\\{char}" for char in trail)
