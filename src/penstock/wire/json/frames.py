"""One frame of the JSON door: a four-byte length and a JSON object. Validates everything; no I/O."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isfinite
from typing import Any, NoReturn

from penstock.core.errors import Malformed
from penstock.core.limits import JSON_FRAME_VALUES_MAX
from penstock.wire.json.bounds import check_values

LENGTH_BYTES = 4
_SHOWN_CHARS_MAX = 60


def decode_object(frame: bytes) -> dict[str, Any]:
    """Decode the object of a frame without its length. Raises Malformed, or TooLarge for too many values."""
    check_values(frame, JSON_FRAME_VALUES_MAX, "the frame")
    try:
        found = _DECODER.decode(frame.decode())
        if b"\\u" in frame:
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise Malformed("the JSON is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise Malformed(f"the frame is not UTF-8 (byte {error.start})") from None
    except UnicodeEncodeError:
        raise Malformed("a string in the frame contains a lone surrogate") from None
    except ValueError as error:
        raise Malformed(f"the frame is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Malformed('a frame must contain one JSON object, such as  {"command": "LIST_TOPICS"}')
    return found


def encode_object(content: dict[str, Any]) -> bytes:
    """Encode a frame. Non-ASCII characters are escaped, so that any record content is valid."""
    body = encode_json(content)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def encode_json(content: Any) -> bytes:
    """The same without the length."""
    return _ENCODER.encode(content).encode("ascii")


def frame_pieces(pieces: Sequence[bytes]) -> list[bytes]:
    """A frame around an encoded object."""
    return [sum(map(len, pieces)).to_bytes(LENGTH_BYTES, "big"), *pieces]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Malformed("duplicate name in an object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise Malformed(f"the frame is not JSON: {name} is not a number")


def finite(digits: str) -> float:
    """A number for `parse_float`. Raises ValueError for one that overflows to infinity, which JSON cannot represent."""
    number = float(digits)
    if not isfinite(number):
        raise ValueError(f"the number {digits[:_SHOWN_CHARS_MAX]} is too large")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=finite)
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
