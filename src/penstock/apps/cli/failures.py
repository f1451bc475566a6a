"""How a command fails: one sentence and an exit code that says whose turn it is. Never shows a traceback for them."""

from __future__ import annotations

import click

from penstock.apps.cli.terminal import escape_lines
from penstock.client import errors

INTERRUPTED = 130
"""What shells report for a program ended by Ctrl-C."""


class _Failure(click.ClickException):
    """What went wrong. The broker's part of the message may hold names that clients chose."""

    def __init__(self, message: str) -> None:
        super().__init__(escape_lines(message))


class StartFailed(_Failure):
    """The broker could not start."""

    exit_code = 1


class WrongSettings(_Failure):
    """The settings cannot be used; one line per problem."""

    exit_code = 2


class NoBroker(_Failure):
    """Nobody answers at the address."""

    exit_code = 3


class ObjectNotFound(_Failure):
    """The topic or partition is not there."""

    exit_code = 4


class RefusedByBroker(_Failure):
    """The broker, or the client library on its behalf, says no."""

    exit_code = 5


class ExtraMissing(_Failure):
    """The command needs a package that only an extra installs."""

    exit_code = 1


class LoadStopped(_Failure):
    """A benchmark could not be carried through."""

    exit_code = 1


_FAILURES: dict[type[errors.ClientError], type[click.ClickException]] = {
    errors.Unreachable: NoBroker,
    errors.TimedOut: NoBroker,
    errors.NotFound: ObjectNotFound,
    errors.BadArgument: WrongSettings,
    errors.NotInstalled: ExtraMissing,
}


def told(error: errors.ClientError) -> click.ClickException:
    """The one translation of a client's error; the nearest kind in its family decides."""
    kind = next((_FAILURES[one] for one in type(error).__mro__ if one in _FAILURES), RefusedByBroker)
    return kind(error.message)
