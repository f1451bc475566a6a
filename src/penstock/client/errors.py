"""What a client can be told, whatever protocol it speaks. Never carries an error of the library underneath.

ClientError(message, retriable, code)
├ BadArgument           an option or argument that cannot be; told before anything is sent
├ SerializationFailed   a value that its serializer cannot write or read
├ NotInstalled          a package that only an extra installs
├ IllegalState          a call at the wrong moment, such as one on a closed client
├ Unreachable           nobody answers at the address                                  retriable
├ TimedOut              no answer within the time given; it may have happened or not   retriable
├ Pending               a transaction is open that is about to change what was asked    retriable
├ DeliveryFailed        records that were handed over and are not in the log
├ Aborted               the transaction did not happen; run it again                   retriable
├ Fenced                another client has taken this one's place: end, or start anew
└ Refused               the broker says no
  ├ NotFound            there is no such topic, partition, group or subscription
  ├ AlreadyThere        it exists already
  ├ OffsetOutOfRange    the log does not have that offset, or has it no longer
  ├ RecordsLost         records that were to be read are gone from the log
  └ RecordsDamaged      bytes that arrived are not what was written
"""

from __future__ import annotations


class ClientError(Exception):
    """Everything a client raises on purpose. `retriable` says whether the same call may succeed later.

    `code` is the broker's own name for what happened, where it gave one.
    """

    retriable = False

    def __init__(self, message: str, *, retriable: bool | None = None, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        if retriable is not None:
            self.retriable = retriable


class BadArgument(ClientError, ValueError):
    """An option or argument that cannot be. The message says what is wrong and what is allowed."""


class NotInstalled(ClientError, ImportError):
    """A package that only an extra installs is not there. The message names the extra."""


class SerializationFailed(ClientError):
    """A key or value that its serializer cannot write, or bytes that it cannot read."""


class IllegalState(ClientError):
    """A call at the wrong moment: on a closed client, or outside of the transaction that it needs."""


class Unreachable(ClientError):
    """Nobody answers at the address."""

    retriable = True


class TimedOut(ClientError):
    """No answer within the time given. What was asked for may have happened or not."""

    retriable = True


class Pending(ClientError):
    """A transaction is open that is about to change what was asked for. Told to those only who do not wait for it."""

    retriable = True


class DeliveryFailed(ClientError):
    """Records that were handed over and did not arrive, as far as is known: `count` of them, for these reasons."""

    def __init__(
        self,
        message: str,
        *,
        retriable: bool | None = None,
        code: str = "",
        count: int = 1,
        reasons: tuple[ClientError, ...] = (),
    ) -> None:
        super().__init__(message, retriable=retriable, code=code)
        self.count = count
        self.reasons = reasons


class Aborted(ClientError):
    """The transaction did not happen. Nothing of it is seen by anybody; it can be run again."""

    retriable = True


class Fenced(ClientError):
    """Another client has taken this one's place: end, or start anew."""


class Refused(ClientError):
    """The broker says no, for a reason that stays unless something is changed."""


class NotFound(Refused):
    """There is no topic, partition, group or subscription of that name."""


class AlreadyThere(Refused):
    """A thing of that name exists already."""


class OffsetOutOfRange(Refused):
    """The log does not have that offset, or has it no longer."""


class RecordsLost(Refused):
    """Records that were to be read are gone: the log was cut, or the topic made anew."""


class RecordsDamaged(Refused):
    """Bytes that arrived are not what was written: their checksum or their lengths do not fit."""
