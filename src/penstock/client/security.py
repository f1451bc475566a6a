"""Builds the security of a connection from resolved options: validates them together and reads secret files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.client.access import (
    OAUTHBEARER,
    Access,
    Credentials,
    Encryption,
    Security,
    is_kafka_security,
    read_access,
)
from penstock.client.errors import BadArgument
from penstock.client.options import (
    ALTERNATIVES,
    ProfileOptions,
    SecurityOptions,
    definitions,
    layered_options,
    parse_value,
)
from penstock.client.secret_files import read_secret_file
from penstock.client.tokens import TokenSource

MECHANISM_DEFAULT = "SCRAM-SHA-512"
SECURITY_NAMES = tuple(definitions(SecurityOptions))
OWN_NAMES = (*SECURITY_NAMES, "profile")
"""Options with names of ours, where others have Kafka's names."""

_FILES_OF_TLS = ("tls_ca", "tls_cert", "tls_key", "tls_key_password")


def read_security(options: Mapping[str, Any]) -> Security:
    """The security of resolved options. Raises BadArgument for options that contradict each other."""
    for names in ALTERNATIVES:
        both = sorted(name for name in names if options.get(name))
        if len(both) > 1:
            raise BadArgument(f"{' and '.join(both)} exclude each other: set one of them")
    encryption = read_encryption(options)
    return Security(_read_credentials(options), encryption, bool(options.get("auth_without_tls")))


def text_options(given: Mapping[str, str]) -> dict[str, Any]:
    """Options of ours that are given as text, in their types. Raises BadArgument."""
    known = definitions(ProfileOptions)
    return {
        name: text if name == "profile" else parse_value(f"option {name}", str(text), known[name][0])
        for name, text in given.items()
    }


def resolve_access(
    kafka: Mapping[str, str], own: Mapping[str, str], *, bootstrap_default: str | None = None
) -> Access:
    """Access from Kafka client options and options of ours (as text), environment and profile. Raises BadArgument.

    Security is set with the names of one of both, and only ours are looked up in the environment and the profile.
    """
    foreign = sorted(name for name in kafka if is_kafka_security(name))
    named = sorted(name for name in own if name != "profile")
    if foreign and named:
        raise BadArgument(
            f"{foreign[0]} and {named[0]} exclude each other: set security with Kafka's options or with Penstock's"
        )
    layered = layered_options(text_options(own), os.environ)
    known = layered.get("bootstrap") or bootstrap_default
    if "bootstrap.servers" not in kafka and known:
        kafka = {**kafka, "bootstrap.servers": str(known)}
    if "bootstrap.servers" not in kafka:
        raise BadArgument(
            "option 'kafka.bootstrap.servers' is missing: set it to HOST:PORT of the broker, or set 'profile'"
        )
    return read_access(kafka, None if foreign else read_security(layered))


def read_encryption(options: Mapping[str, Any]) -> Encryption | None:
    """TLS of resolved options; None without it. Raises BadArgument."""
    files = [name for name in _FILES_OF_TLS if options.get(name)]
    is_on = options.get("tls")
    if is_on is None:
        is_on = bool(files)
    if not is_on:
        if files:
            raise BadArgument(f"{files[0]} contradicts tls=False: remove one of them")
        return None
    certificate, key = _path(options.get("tls_cert")), _path(options.get("tls_key"))
    if certificate is None and (key is not None or options.get("tls_key_password")):
        raise BadArgument("tls_key and tls_key_password need tls_cert: the certificate of the key")
    verify = options.get("tls_verify")
    found = Encryption(
        ca_path=_path(options.get("tls_ca")),
        certificate_path=certificate,
        key_path=key,
        key_password=options.get("tls_key_password"),
        checks_name=verify is None or bool(verify),
    )
    found.context()
    return found


def _read_credentials(options: Mapping[str, Any]) -> Credentials | None:
    mechanism = options.get("sasl_mechanism")
    has_token = any(options.get(name) for name in ("token", "token_file", "token_url"))
    if mechanism is None:
        mechanism = OAUTHBEARER if has_token else MECHANISM_DEFAULT if options.get("username") else None
    if mechanism is None:
        if options.get("password_file"):
            raise BadArgument("password_file needs username")
        return None
    if mechanism == OAUTHBEARER:
        if not has_token:
            raise BadArgument("sasl_mechanism OAUTHBEARER needs token, token_file or token_url")
        return Credentials(mechanism, "", "", _token_source(options))
    if has_token:
        raise BadArgument(f"a token is for OAUTHBEARER, not for sasl_mechanism {mechanism}")
    username, password = options.get("username"), _password(options)
    if not username or password is None:
        raise BadArgument(
            f"sasl_mechanism {mechanism} needs username and one of password, password_file and the environment "
            "variable PENSTOCK_PASSWORD"
        )
    return Credentials(mechanism, username, password)


def _password(options: Mapping[str, Any]) -> str | None:
    path = options.get("password_file")
    if path:
        return read_secret_file(path, "password_file")
    found: str | None = options.get("password")
    return found


def _token_source(options: Mapping[str, Any]) -> TokenSource:
    url = options.get("token_url")
    if not url:
        return TokenSource(token=options.get("token"), path=_path(options.get("token_file")))
    username, password = options.get("username"), _password(options)
    if not username or password is None:
        raise BadArgument("token_url needs username (the client id) and password (the client secret)")
    return TokenSource(
        url=url,
        client_id=username,
        client_secret=password,
        scope=options.get("token_scope") or "",
        ca_path=_path(options.get("tls_ca")),
    )


def _path(value: Any) -> str | None:
    return str(Path(value).expanduser()) if value else None
