"""Names of certificates from DER: with their types, and only if they are well-formed."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from penstock.core.authentication.distinguished_name import format_name
from penstock.core.authentication.failure import NotAuthenticated
from penstock.wire.x509.name import NAME_BYTES_MAX, decode_rdns

NAME = x509.Name(
    [
        x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Größe, Inc."),
        x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.c"),
        x509.NameAttribute(NameOID.COMMON_NAME, "alice"),
    ]
)


def test_a_name_as_kafka_prints_it() -> None:
    assert (
        format_name(decode_rdns(NAME.public_bytes()))
        == r"CN=alice,1.2.840.113549.1.9.1=#16056140622e63,O=Größe\, Inc.,C=DE"
    )


def test_parts_with_several_attributes() -> None:
    pair = x509.RelativeDistinguishedName(
        [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.USER_ID, "b")]
    )
    assert format_name(decode_rdns(x509.Name([pair]).public_bytes())) in ("CN=a+UID=b", "UID=b+CN=a")


def test_a_long_name() -> None:
    name = x509.Name([x509.NameAttribute(NameOID.STREET_ADDRESS, "x" * 300)])
    assert format_name(decode_rdns(name.public_bytes())) == "STREET=" + "x" * 300


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("0c03746162", "CN=tab"),
        ("1403743631", "CN=t61"),
        ("160469613540", "CN=ia5@"),
        ("1203313233", "CN=#1203313233"),
        ("1c0400000075", "CN=#1c0400000075"),
        ("1e020041", "CN=A"),
    ],
)
def test_types_of_strings(value: str, shown: str) -> None:
    """Java shows numeric and universal strings by their bytes."""
    pair = bytes.fromhex("0603550403" + value)
    for tag in (0x30, 0x31, 0x30):
        pair = bytes([tag, len(pair)]) + pair
    assert format_name(decode_rdns(pair)) == shown


def test_a_value_that_is_no_string_is_shown_by_its_bytes() -> None:
    # CN with a value of type INTEGER 5
    assert format_name(decode_rdns(bytes.fromhex("300c310a30080603550403020105"))) == "CN=#020105"


@pytest.mark.parametrize(
    "der",
    [
        b"",
        b"\x30",
        b"\x30\x05",
        b"\x31\x00",
        b"\x30\x00\x00",
        b"\x30\x80\x00\x00",
        b"\x30\x84\x00\x00\x00\x00",
        b"\x30\x82\x00",
        bytes.fromhex("30043002" + "0500"),
        bytes.fromhex("300b31093007060355040c0101ff")[:-1],
        bytes.fromhex("300c310a300806035504830c0161"),
        bytes.fromhex("300c310a300806035504030c01ff"),
        b"\x30\x82\xff\xff" + b"\0" * NAME_BYTES_MAX,
    ],
)
def test_malformed_names_are_refused(der: bytes) -> None:
    with pytest.raises(NotAuthenticated):
        decode_rdns(der)


def test_every_truncation_is_refused() -> None:
    der = NAME.public_bytes()
    for end in range(len(der)):
        with pytest.raises(NotAuthenticated):
            decode_rdns(der[:end])
