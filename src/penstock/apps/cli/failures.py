"""Failures of commands: a message and an exit code. Shown without a traceback."""

from __future__ import annotations

import re
import sys
from typing import IO, Any

import click

from penstock.apps.cli.error_hints import with_hint
from penstock.apps.cli.terminal import escape_lines, say_labelled
from penstock.client import errors

INTERRUPTED = 130
"""The exit code that shells use for a program stopped by Ctrl-C."""


class _Failure(click.ClickException):
    """Escapes its message, which may contain client-supplied names."""

    def __init__(self, message: str) -> None:
        super().__init__(escape_lines(message))

    def show(self, file: IO[Any] | None = None) -> None:
        """As click does, with the word in red on a terminal."""
        say_labelled("Error:", self.format_message(), "red", file=file or sys.stderr)


class StartFailed(_Failure):
    """The broker could not start."""

    exit_code = 1


class WrongSettings(_Failure):
    """The settings are invalid; one line per error."""

    exit_code = 2


class NoBroker(_Failure):
    """No broker answers at the address."""

    exit_code = 3


class ObjectNotFound(_Failure):
    """The topic or partition does not exist."""

    exit_code = 4


class RefusedByBroker(_Failure):
    """The broker, or the client library on its behalf, rejected the request."""

    exit_code = 5


class ExtraMissing(_Failure):
    """The command needs a package that only an extra installs."""

    exit_code = 1


class LoadStopped(_Failure):
    """A benchmark could not be completed."""

    exit_code = 1


_FAILURES: dict[type[errors.ClientError], type[click.ClickException]] = {
    errors.Unreachable: NoBroker,
    errors.TimedOut: NoBroker,
    errors.TlsFailed: NoBroker,
    errors.NotFound: ObjectNotFound,
    errors.BadArgument: WrongSettings,
    errors.NotInstalled: ExtraMissing,
}


def to_click_error(error: errors.ClientError) -> click.ClickException:
    """Translate a client error; the most specific class with an entry decides."""
    kind = next((_FAILURES[one] for one in type(error).__mro__ if one in _FAILURES), RefusedByBroker)
    return kind(with_hint(_with_flags(error.message), error.code))


_OPTIONS = re.compile(
    r"\b(tls_ca|tls_cert|tls_key|tls_verify|sasl_mechanism|password_file|token_file|token_url|token_scope|"
    r"auth_without_tls)\b(=False)?"
)


def _with_flags(message: str) -> str:
    """Security options as the flags of commands: `tls_verify=False` is --no-tls-verify."""
    return _OPTIONS.sub(lambda found: f"--{'no-' if found[2] else ''}{found[1].replace('_', '-')}", message)
