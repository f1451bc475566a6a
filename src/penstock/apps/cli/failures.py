"""How a command fails: one sentence and an exit code that says whose turn it is. Never shows a traceback for them."""

from __future__ import annotations

import click

from penstock.client import errors

INTERRUPTED = 130
"""What shells report for a program ended by Ctrl-C."""


class StartFailed(click.ClickException):
    """The broker could not start."""

    exit_code = 1


class WrongSettings(click.ClickException):
    """The settings cannot be used; one line per problem."""

    exit_code = 2


class NoBroker(click.ClickException):
    """Nobody answers at the address."""

    exit_code = 3


class NotFound(click.ClickException):
    """The topic or partition is not there."""

    exit_code = 4


class RefusedByBroker(click.ClickException):
    """The broker, or the client library on its behalf, says no."""

    exit_code = 5


class NotInstalled(click.ClickException):
    """The command needs a package that only an extra installs."""

    exit_code = 1


class LoadStopped(click.ClickException):
    """A benchmark could not be carried through."""

    exit_code = 1


_FAILURES: dict[type[errors.ClientError], type[click.ClickException]] = {
    errors.Unreachable: NoBroker,
    errors.TimedOut: NoBroker,
    errors.NotFound: NotFound,
    errors.BadArgument: WrongSettings,
    errors.NotInstalled: NotInstalled,
}


def told(error: errors.ClientError) -> click.ClickException:
    """The one translation of a client's error; the nearest kind in its family decides."""
    kind = next((_FAILURES[one] for one in type(error).__mro__ if one in _FAILURES), RefusedByBroker)
    return kind(error.message)
