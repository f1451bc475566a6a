"""All exceptions that clients raise, for every protocol. librdkafka errors are translated and never exposed.

ClientError(message, retriable, code)
├ BadArgument           an invalid option or argument; raised before anything is sent
├ SerializationFailed   a key or value that its serializer cannot encode or decode
├ NotInstalled          a package of an optional extra is missing
├ IllegalState          a call in the wrong state, such as on a closed client
├ Unreachable           no broker answers at the address                               retriable
├ TlsFailed             TLS could not be established: certificate, host name, or a port without TLS
├ TimedOut              no response in time; the outcome is unknown                    retriable
├ Pending               an open transaction may change the requested value             retriable
├ DeliveryFailed        records that were sent but not acknowledged
├ Aborted               the transaction was rolled back; run it again                  retriable
├ Fenced                another client has taken over: exit or create a new client
└ Refused               the broker rejected the request
  ├ AuthenticationFailed  the broker rejected the credentials
  ├ NotFound            no such topic, partition, group or subscription
  ├ AlreadyThere        the object already exists
  ├ OffsetOutOfRange    the offset is not, or no longer, in the log
  ├ RecordsLost         records to be read are no longer in the log
  └ RecordsDamaged      received records are corrupt
"""

from __future__ import annotations


class ClientError(Exception):
    """Base of all client exceptions. `retriable`: whether the same call may succeed later.

    `code` is the broker's error code, if it sent one.
    """

    retriable = False

    def __init__(self, message: str, *, retriable: bool | None = None, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        if retriable is not None:
            self.retriable = retriable


class BadArgument(ClientError, ValueError):
    """An invalid option or argument. The message names the allowed values."""


class NotInstalled(ClientError, ImportError):
    """A package of an optional extra is not installed. The message names the extra."""


class SerializationFailed(ClientError):
    """A key or value that its serializer cannot encode, or bytes that it cannot decode."""


class IllegalState(ClientError):
    """A call in the wrong state: on a closed client, or outside a required transaction."""


class Unreachable(ClientError):
    """No broker answers at the address."""

    retriable = True


class TlsFailed(ClientError):
    """TLS could not be established, or was needed and missing. The message names the option to change."""


class TimedOut(ClientError):
    """No response in time. The request may or may not have taken effect."""

    retriable = True


class Pending(ClientError):
    """An open transaction may change the requested value. Raised only for calls that do not wait for it."""

    retriable = True


class DeliveryFailed(ClientError):
    """`count` records were sent but not acknowledged, for these `reasons`."""

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
    """The transaction was rolled back. None of it is visible; it can be run again."""

    retriable = True


class Fenced(ClientError):
    """Another client has taken over: exit or create a new client."""


class Refused(ClientError):
    """The broker rejected the request; retrying it unchanged does not help."""


class AuthenticationFailed(Refused):
    """The broker rejected the credentials, or there are none to present."""


class NotFound(Refused):
    """No topic, partition, group or subscription of that name exists."""


class AlreadyThere(Refused):
    """An object of that name already exists."""


class OffsetOutOfRange(Refused):
    """The offset is not, or no longer, in the log."""


class RecordsLost(Refused):
    """Records to be read are gone: retention deleted them, or the topic was recreated."""


class RecordsDamaged(Refused):
    """Received records are corrupt: the checksum or a length does not match."""
