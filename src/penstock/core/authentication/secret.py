"""A value that must not be shown: passwords, tokens, keys. Reading it takes an explicit call that is easy to grep."""

from __future__ import annotations

import hmac
from typing import NoReturn

HIDDEN = "***"


class Secret:
    """Hides its value in repr, str, format and logs; refuses json, pickle, copies and hashing."""

    __slots__ = ("__value",)

    def __init__(self, value: str | bytes) -> None:
        self.__value = value.encode() if isinstance(value, str) else bytes(value)

    def reveal(self) -> bytes:
        """The value. Pass it on at once, and store it nowhere."""
        return self.__value

    def reveal_text(self) -> str:
        """The value as text. Raises ValueError, without the value, if it is not UTF-8."""
        try:
            return self.__value.decode()
        except UnicodeDecodeError:
            raise ValueError("the secret is not UTF-8") from None

    def __eq__(self, other: object) -> bool:
        """Compares in constant time."""
        return isinstance(other, Secret) and hmac.compare_digest(self.__value, other.__value)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, specification: str) -> str:
        return HIDDEN

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be serialized or copied")

    __reduce_ex__ = __reduce__  # type: ignore[assignment]
