"""Names with escapes."""

from __future__ import annotations

import pytest

from penstock.core.authentication.failure import NotAuthenticated
from penstock.wire.sasl.sasl_name import decode_name


@pytest.mark.parametrize(
    ("text", "name"),
    [("", ""), ("alice", "alice"), ("a=2Cb=3Dc", "a,b=c"), ("=3D2C", "=2C"), ("=2C=2C", ",,")],
)
def test_escapes(text: str, name: str) -> None:
    assert decode_name("X", text) == name


@pytest.mark.parametrize("text", ["=", "a=", "=2", "=2c", "=3d", "=00", "==3D", "=\n"])
def test_invalid_escapes(text: str) -> None:
    with pytest.raises(NotAuthenticated, match="invalid escape"):
        decode_name("X", text)
