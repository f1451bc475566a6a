"""Distinguished names in the form that Java, and so Kafka, prints. The expected texts come from X500Principal."""

from __future__ import annotations

import pytest

from penstock.core.authentication.distinguished_name import NameAttribute, format_name


def cn(text: str) -> NameAttribute:
    return NameAttribute("2.5.4.3", text, b"")


def test_the_most_specific_part_comes_first() -> None:
    name = [
        [NameAttribute("2.5.4.6", "DE", b"")],
        [NameAttribute("0.9.2342.19200300.100.1.25", "example", b"")],
        [NameAttribute("2.5.4.10", "Example Org", b"")],
        [cn("alice"), NameAttribute("0.9.2342.19200300.100.1.1", "a1", b"")],
    ]
    assert format_name(name) == "CN=alice+UID=a1,O=Example Org,DC=example,C=DE"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a,b", r"a\,b"),
        ('a"b\\c', r"a\"b\\c"),
        ("a=b", r"a\=b"),
        ("#a#", r"\#a\#"),
        ("a+b;c<d>", r"a\+b\;c\<d\>"),
        ("  a b ", r"\ \ a b\ "),
        ("  ", r"\ \ "),
        ("", ""),
        ("Größe 名", "Größe 名"),
        ("a\0b", r"a\00b"),
    ],
)
def test_special_characters_are_escaped(text: str, shown: str) -> None:
    assert format_name([[cn(text)]]) == f"CN={shown}"


def test_attributes_without_a_keyword_are_shown_by_number() -> None:
    email = NameAttribute("1.2.840.113549.1.9.1", "a@b.c", b"\x16\x05a@b.c")
    assert format_name([[email], [cn("a")]]) == "CN=a,1.2.840.113549.1.9.1=#16056140622e63"
