"""Broken Kafka frames by the thousand, seeded. `python tests/laws/fuzz_kafka.py --seconds 60`.

Each round makes a valid frame, breaks it, and reads it. It must be read or be refused as Malformed, nothing
else; and what was read must be writable and come back the same.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

if __name__ == "__main__":  # by hand it runs without an installed package
    root = Path(__file__).parents[2]
    sys.path[:0] = [str(root / "src"), str(root / "tests")]

from kafka_samples import message_versions, sample
from penstock.core.errors import Malformed
from penstock.wire.kafka import (
    API,
    UNSUPPORTED,
    Api,
    ApiKey,
    ErrorCode,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)

MESSAGES = tuple(message_versions())
NASTY = (
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff",
    b"\x80\x80\x80\x80\x08",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\x80\x00\x00\x00",
    b"\x7f\xff",
    b"\xff\xfe",
    b"\x00",
    b"\x01",
    b"\x7f",
)


def break_frame(frame: bytes, rng: Random) -> bytes:
    """One to three blows: cut, flip, overwrite, insert, delete, or all random."""
    broken = bytearray(frame)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(broken) + 1)
        match rng.randrange(6):
            case 0:
                del broken[at:]
            case 1 if at < len(broken):
                broken[at] ^= 1 << rng.randrange(8)
            case 2:
                nasty = rng.choice(NASTY)
                broken[at : at + len(nasty)] = nasty
            case 3:
                broken[at:at] = rng.choice(NASTY)
            case 4:
                del broken[at : at + rng.randint(1, 8)]
            case 5:
                broken[at : at + 8] = rng.randbytes(rng.randint(0, 16))
    return bytes(broken)


def request_round(api: Api, version: int, rng: Random) -> bool:
    """Break a request and read it as a broker would. Was it readable?"""
    message = sample(api.request, version, rng)
    frame = encode_request(api.key, version, rng.getrandbits(31), rng.choice((None, "", "me")), message)[4:]
    broken = break_frame(frame, rng)
    try:
        header = decode_request_header(broken)
        if header.body_position == UNSUPPORTED:
            return False
        read = decode_request(header.api_key, header.version, broken, header.body_position)
    except Malformed:
        return False
    assert_survives(API[header.api_key], header.version, read, "request")
    return True


def response_round(api: Api, version: int, rng: Random) -> bool:
    """Break a reply and read it as a client would. Was it readable?"""
    message = sample(api.response, version, rng)
    frame = joined(encode_response(api.key, version, rng.getrandbits(31), message))[4:]
    try:
        _, read = decode_response(api.key, version, break_frame(frame, rng))
    except Malformed:
        return False
    if api.key == ApiKey.API_VERSIONS and read.error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    assert_survives(api, version, read, "response")
    return True


def assert_survives(api: Api, version: int, read: Any, side: str) -> None:
    """Whatever was read can be written, read again, and written to the same bytes."""
    if side == "request":
        first = encode_request(api.key, version, 1, None, read)
        position = decode_request_header(first[4:]).body_position
        again = decode_request(api.key, version, first[4:], position)
        assert encode_request(api.key, version, 1, None, again) == first
    else:
        first = joined(encode_response(api.key, version, 1, read))
        _, again = decode_response(api.key, version, first[4:])
        assert joined(encode_response(api.key, version, 1, again)) == first


def joined(parts: list[Any]) -> bytes:
    return b"".join(parts)


def one_round(seed: int) -> bool:
    """One round, wholly determined by its seed."""
    rng = Random(seed)
    api, version = rng.choice(MESSAGES)
    return request_round(api, version, rng) if rng.random() < 0.6 else response_round(api, version, rng)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz the Kafka codec.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0, help="the first round's seed; rounds count up from it")
    options = parser.parse_args()
    stop = time.monotonic() + options.seconds
    seed, readable = options.seed, 0
    while time.monotonic() < stop:
        try:
            readable += one_round(seed)
        except BaseException:
            print(f"failed: --seed {seed}", file=sys.stderr)
            raise
        seed += 1
    print(f"{seed - options.seed} broken frames: {readable} still readable, the rest refused as malformed")


if __name__ == "__main__":
    main()
