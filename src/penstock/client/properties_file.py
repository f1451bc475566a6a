"""Reads the connection part of a properties file of librdkafka or of a Java client. No I/O."""

from __future__ import annotations

from typing import Any

from penstock.client.access import is_kafka_security, read_kafka_security
from penstock.client.errors import BadArgument


def parse_properties(text: str) -> dict[str, str]:
    """`name=value` or `name: value` lines; `#` and `!` start comments, and a backslash continues a line."""
    found: dict[str, str] = {}
    for line in text.replace("\\\r\n", "").replace("\\\n", "").splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "!")):
            continue
        ends = [stripped.index(mark) for mark in "=:" if mark in stripped]
        if not ends:
            raise BadArgument(
                f"a line of the properties file is not of the form name=value: {stripped[:20]!r}…"
            )
        found[stripped[: min(ends)].strip()] = stripped[min(ends) + 1 :].strip()
    return found


def read_properties(text: str) -> tuple[dict[str, Any], list[str]]:
    """The options of a profile, and the names that are about something else. Raises BadArgument."""
    given = parse_properties(text)
    given = {_SAME.get(name, name): value for name, value in given.items()}
    security = read_kafka_security(given)
    options: dict[str, Any] = {"bootstrap": given.get("bootstrap.servers")}
    if security.encryption is not None:
        found = security.encryption
        options |= {
            "tls": True,
            "tls_ca": found.ca_path,
            "tls_cert": found.certificate_path,
            "tls_key": found.key_path,
            "tls_key_password": found.key_password,
            "tls_verify": None if found.checks_name else False,
        }
    if security.credentials is not None:
        who = security.credentials
        options["sasl_mechanism"] = who.mechanism
        if who.token is None:
            options |= {"username": who.username, "password": who.password}
        else:
            options |= {
                "token_url": who.token.url,
                "username": who.token.client_id,
                "password": who.token.client_secret,
                "token_scope": who.token.scope or None,
            }
    ignored = sorted(name for name in given if name != "bootstrap.servers" and not is_kafka_security(name))
    return {name: value for name, value in options.items() if value is not None}, ignored


_SAME = {"metadata.broker.list": "bootstrap.servers", "sasl.mechanisms": "sasl.mechanism"}
"""Other names that librdkafka has for the same."""
