"""The words of the coordinator's console: the table of commands, and the parser of one line. Pure; runs nothing.

All surfaces (terminal, TCP, HTTP, `penstock cluster`) parse with this module, and `help` and completion derive from
its table. Words are exact and case-insensitive; extra spaces are allowed, and `#` starts a comment.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from penstock.core.printable import escape

LINE_CHARS_MAX = 1_000
SHOWN_CHARS_MAX = 40
LOG_LINES_DEFAULT = 20
LOG_LINES_MAX = 1_000
NODE_ID_DIGITS_MAX = 9
JSON_FLAG = "--json"
COMMENT = "#"

ID, SERVICE, LINES, WORD = "ID", "SERVICE", "[LINES]", "[WORD]"
BROKER = "broker"
BARE_SERVICES = ("producer", "consumer", "metadata")
"""Services of which there is one; brokers have a number."""


class FailureKind(Enum):
    """Why a command failed: a stable name, the exit status of the command line, and the HTTP status."""

    WORDS = ("InvalidCommand", 2, 400)
    NO_SUCH_SERVICE = ("UnknownService", 4, 404)
    REJECTED = ("CommandFailed", 5, 409)
    NO_CLUSTER = ("ClusterUnavailable", 3, 503)
    NO_TOKEN = ("TokenRequired", 5, 401)

    @property
    def code(self) -> str:
        return self.value[0]

    @property
    def exit_status(self) -> int:
        return self.value[1]

    @property
    def http_status(self) -> int:
        return self.value[2]


class ConsoleError(Exception):
    """A line that is not a command, or a command that failed; the message says what to do."""

    def __init__(self, failure: FailureKind, message: str, remedy: str = "") -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.failure = failure
        self.message = message
        self.remedy = remedy


class Verb(Enum):
    """What a command does."""

    STATUS = "status"
    BROKERS = "brokers"
    START = "start"
    STOP = "stop"
    RESTART = "restart"
    KILL = "kill"
    RESTART_ALL = "restart all"
    LEADERS = "leaders"
    TOPICS = "topics"
    LAG = "lag"
    LOGS = "logs"
    HELP = "help"
    EXIT = "exit"
    SHUTDOWN = "shutdown"


GUARDED = frozenset(
    {Verb.START, Verb.STOP, Verb.RESTART, Verb.KILL, Verb.RESTART_ALL, Verb.LOGS, Verb.SHUTDOWN}
)
"""Verbs that need the token: everything that changes something, and logs, which may hold what others must not read."""


@dataclass(frozen=True, slots=True)
class Command:
    """One parsed line."""

    verb: Verb
    service: str = ""
    """The service that it is about: `broker-3`, `producer`. Nobody has checked that it exists."""
    lines: int = LOG_LINES_DEFAULT
    word: str = ""
    """The argument of `help`."""
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write a command: literal words, and placeholders in upper case."""

    text: str
    verb: Verb
    meaning: str
    service: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.text.split())


def _service_forms(name: str, what: str, number: str = "") -> Iterator[Form]:
    service = "" if number else name
    for verb, meaning in (
        (Verb.START, f"start {what} and wait until it serves"),
        (Verb.STOP, f"stop {what} cleanly; it stays stopped"),
        (Verb.RESTART, f"stop and start {what}"),
        (Verb.KILL, f"kill {what} with SIGKILL, as a crash would; it starts again by itself"),
    ):
        yield Form(f"{name} {verb.value}{number}", verb, meaning, service)


FORMS: tuple[Form, ...] = (
    Form("status", Verb.STATUS, "all services and their health"),
    Form("broker list", Verb.BROKERS, "all brokers"),
    *_service_forms(BROKER, "a broker", f" {ID}"),
    *_service_forms("producer", "the producer service"),
    *_service_forms("consumer", "the consumer service"),
    *_service_forms("metadata", "the process that stores the cluster's metadata"),
    Form(f"kill {SERVICE}", Verb.KILL, "the same as `SERVICE kill`; a broker is `broker 3` or `broker-3`"),
    Form("restart all", Verb.RESTART_ALL, "restart all services, one broker at a time"),
    Form("leaders", Verb.LEADERS, "partitions that each broker leads"),
    Form("topics", Verb.TOPICS, "topics with their partitions, replicas and under-replicated partitions"),
    Form("lag", Verb.LAG, "lag of consumer groups by topic"),
    Form(
        f"logs {SERVICE} {LINES}",
        Verb.LOGS,
        f"the last lines of a service's log; {LOG_LINES_DEFAULT} unless told",
    ),
    Form(f"help {WORD}", Verb.HELP, "list the commands, or those that begin with a word"),
    Form("exit", Verb.EXIT, "leave this console; the cluster runs on"),
    Form("quit", Verb.EXIT, "the same as `exit`"),
    Form("shutdown", Verb.SHUTDOWN, "stop all services and the coordinator"),
)
"""Every command, in the order of `help`."""

FIRST_WORDS = tuple(dict.fromkeys(form.parts[0] for form in FORMS))


def parse_command(text: str) -> Command:
    """The command of one line. Raises ConsoleError, and nothing else, whatever the text is."""
    if len(text) > LINE_CHARS_MAX:
        raise ConsoleError(FailureKind.WORDS, f"The line is over the limit of {LINE_CHARS_MAX} characters.")
    words, as_json = split_words(text)
    if not words:
        raise ConsoleError(FailureKind.WORDS, "The line has no command.", "Type help for a list.")
    forms = forms_of(words[0])
    if not forms:
        raise _unknown(words[0], FIRST_WORDS, "command", "Type help for a list.")
    for form in forms:
        command = _match(form, words)
        if command is not None:
            return replace(command, as_json=as_json)
    raise _mismatch(words, forms)


def split_words(text: str) -> tuple[list[str], bool]:
    """The words of a line in lower case without its comment, and whether JSON is asked for."""
    words: list[str] = []
    for word in text.lower().split():
        if word.startswith(COMMENT):
            break
        words.append(word)
    return [word for word in words if word != JSON_FLAG], JSON_FLAG in words


def is_blank(text: str) -> bool:
    """Whether the line has nothing to run: it is empty or a comment."""
    return not split_words(text)[0]


def forms_of(first_word: str) -> list[Form]:
    """All commands that begin with this word."""
    return [form for form in FORMS if form.parts[0] == first_word]


def _match(form: Form, words: Sequence[str]) -> Command | None:
    """The command, if the words have this form."""
    left = list(words)
    found = Command(form.verb, form.service)
    for part in form.parts:
        if part in (LINES, WORD) and not left:
            continue
        if not left:
            return None
        if part == SERVICE:
            service = _take_service(left)
            if service is None:
                return None
            found = replace(found, service=service)
            continue
        word = left.pop(0)
        if part == ID:
            if not _is_number(word):
                return None
            found = replace(found, service=f"{BROKER}-{int(word)}")
        elif part == LINES:
            if not _is_number(word) or not 1 <= int(word) <= LOG_LINES_MAX:
                return None
            found = replace(found, lines=int(word))
        elif part == WORD:
            found = replace(found, word=word)
        elif part != word:
            return None
    return None if left else found


def _take_service(left: list[str]) -> str | None:
    """`broker 3`, `broker-3` or `producer`; removes the words that it consists of."""
    name = left.pop(0)
    if name == BROKER:
        return f"{BROKER}-{int(left.pop(0))}" if left and _is_number(left[0]) else None
    kind, dash, number = name.partition("-")
    if kind == BROKER and dash and _is_number(number):
        return f"{BROKER}-{int(number)}"
    return name if name in BARE_SERVICES else None


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= NODE_ID_DIGITS_MAX


# -- errors


def _mismatch(words: Sequence[str], forms: Sequence[Form]) -> ConsoleError:
    """The error for a line whose first word is known: names what was expected in the first place that differs."""
    first = words[0]
    see = f"See: help {first}"
    depth = max(_literals_matched(form, words) for form in forms)
    closest = [form for form in forms if _literals_matched(form, words) == depth]
    expected = list(dict.fromkeys(_part_at(form, depth) for form in closest))
    said = " ".join(words[:depth])
    if not any(expected):
        rest = _shown(" ".join(words[depth:]))
        return ConsoleError(FailureKind.WORDS, f"'{said}' takes nothing after it, not '{rest}'.", see)
    literals = [part for part in expected if part.islower()]
    if depth >= len(words):
        return ConsoleError(FailureKind.WORDS, f"'{said}' needs {_either(expected)} after it.", see)
    if literals:
        return _unknown(words[depth], literals, f"word after '{said}'", see)
    if words[depth] == BROKER and len(words) == depth + 1:
        return ConsoleError(FailureKind.WORDS, f"'{said} broker' needs the number of a broker after it.", see)
    rest = _shown(" ".join(words[depth:]))
    return ConsoleError(FailureKind.WORDS, f"'{said}' takes {_either(expected)}, not '{rest}'.", see)


def _literals_matched(form: Form, words: Sequence[str]) -> int:
    """How many literal words of the form the line begins with."""
    count = 0
    for part, word in zip(form.parts, words, strict=False):
        if part != word:
            break
        count += 1
    return count


def _part_at(form: Form, depth: int) -> str:
    """The literal word, or the placeholders, that a form has at a place; empty if it ends there."""
    rest = form.parts[depth:]
    return rest[0] if rest[:1] and rest[0].islower() else " ".join(rest)


_PLACEHOLDERS = {
    ID: "the number of a broker",
    f"{SERVICE} {LINES}": f"a service (broker 3, producer, consumer, metadata) and up to {LOG_LINES_MAX} lines",
    SERVICE: "a service (broker 3, producer, consumer, metadata)",
    WORD: "one word",
}


def _either(parts: Sequence[str]) -> str:
    named = [_PLACEHOLDERS.get(part, part) for part in parts]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} or {named[-1]}"


def _unknown(word: str, known: Sequence[str], what: str, see: str) -> ConsoleError:
    close = difflib.get_close_matches(word[:SHOWN_CHARS_MAX], known, n=1, cutoff=0.0)
    nearest = f" The nearest is '{close[0]}'." if close else ""
    return ConsoleError(FailureKind.WORDS, f"'{_shown(word)}' is not a {what}.{nearest}", see)


def _shown(text: str) -> str:
    return escape(text[:SHOWN_CHARS_MAX]) + ("…" if len(text) > SHOWN_CHARS_MAX else "")
