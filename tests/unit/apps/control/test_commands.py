"""The words of the console. Never what they do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.apps.control.commands import (
    FIRST_WORDS,
    FORMS,
    LINE_CHARS_MAX,
    LOG_LINES_MAX,
    Command,
    ConsoleError,
    FailureKind,
    Form,
    Verb,
    is_blank,
    parse_command,
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("status", Command(Verb.STATUS)),
        ("broker list", Command(Verb.BROKERS)),
        ("broker stop 3", Command(Verb.STOP, "broker-3")),
        ("broker start 3", Command(Verb.START, "broker-3")),
        ("broker restart 3", Command(Verb.RESTART, "broker-3")),
        ("broker kill 3", Command(Verb.KILL, "broker-3")),
        ("kill broker 3", Command(Verb.KILL, "broker-3")),
        ("kill broker-3", Command(Verb.KILL, "broker-3")),
        ("kill producer", Command(Verb.KILL, "producer")),
        *(
            (f"{name} {verb.value}", Command(verb, name))
            for name in ("producer", "consumer", "metadata")
            for verb in (Verb.START, Verb.STOP, Verb.RESTART, Verb.KILL)
        ),
        ("restart all", Command(Verb.RESTART_ALL)),
        ("leaders", Command(Verb.LEADERS)),
        ("topics", Command(Verb.TOPICS)),
        ("lag", Command(Verb.LAG)),
        ("logs broker 2", Command(Verb.LOGS, "broker-2")),
        ("logs broker-2 7", Command(Verb.LOGS, "broker-2", lines=7)),
        ("logs consumer 1000", Command(Verb.LOGS, "consumer", lines=1000)),
        ("help", Command(Verb.HELP)),
        ("help broker", Command(Verb.HELP, word="broker")),
        ("exit", Command(Verb.EXIT)),
        ("quit", Command(Verb.EXIT)),
        ("shutdown", Command(Verb.SHUTDOWN)),
        ("  BROKER\t Stop   3  ", Command(Verb.STOP, "broker-3")),
        ("broker stop 003", Command(Verb.STOP, "broker-3")),
        ("status --json", Command(Verb.STATUS, as_json=True)),
        ("--JSON status", Command(Verb.STATUS, as_json=True)),
        ("broker stop 3        # Stop broker #3", Command(Verb.STOP, "broker-3")),
    ],
)
def test_a_line(line: str, expected: Command) -> None:
    assert parse_command(line) == expected


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("stauts", ("'stauts'", "nearest is 'status'", "help")),
        ("s", ("'s' is not a command", "help")),
        ("brok list", ("nearest is 'broker'",)),
        ("broker", ("list, start, stop, restart or kill", "help broker")),
        ("broker stp 3", ("'stp'", "nearest is 'stop'", "help broker")),
        ("broker sto 3", ("'sto'", "nearest is 'stop'")),
        ("broker stop", ("needs the number of a broker",)),
        ("broker stop three", ("takes the number of a broker, not 'three'",)),
        ("broker stop -3", ("not '-3'",)),
        ("broker stop ３", ("not '３'",)),
        ("broker stop 3 4", ("not '3 4'",)),
        ("broker stop 99999999999999999999", ("number of a broker",)),
        ("producer", ("start, stop, restart or kill",)),
        ("restart", ("needs all",)),
        ("restart al", ("nearest is 'all'",)),
        ("restart all now", ("takes nothing after it, not 'now'",)),
        ("status please", ("takes nothing after it",)),
        ("logs", ("needs a service",)),
        ("logs broker", ("needs the number of a broker",)),
        ("logs broker-1 0", ("up to 1000 lines",)),
        (f"logs broker-1 {LOG_LINES_MAX + 1}", ("up to 1000 lines",)),
        ("kill everything", ("takes a service", "'everything'")),
        ("help broker stop", ("takes one word",)),
        ("", ("no command", "help")),
        ("# only a comment", ("no command",)),
        ("\x1b[2Jx", (r"'\x1b[2jx'",)),
        ("x" * 200, ("…",)),
        ("x" * (LINE_CHARS_MAX + 1), ("limit of 1000 characters",)),
    ],
)
def test_nonsense_names_the_cause_and_the_remedy(line: str, names: tuple[str, ...]) -> None:
    with pytest.raises(ConsoleError) as caught:
        parse_command(line)
    assert caught.value.failure is FailureKind.WORDS
    assert [name for name in names if name not in str(caught.value)] == [], str(caught.value)
    assert str(caught.value).isprintable()


_WORDS = sorted({word for form in FORMS for word in form.parts} | {"3", "-3", "broker-3", "--json", "#"})


@given(st.one_of(st.text(), st.lists(st.sampled_from(_WORDS)).map(" ".join)))
def test_any_text_is_a_command_or_the_clear_error(line: str) -> None:
    try:
        found = parse_command(line)
    except ConsoleError as error:
        assert error.message
        return
    assert found.verb in Verb
    assert not is_blank(line)


@given(st.sampled_from(FORMS), st.integers(1, 999), st.booleans())
def test_every_form_of_the_table_is_understood(form: Form, number: int, is_upper: bool) -> None:
    stands_for = {"ID": str(number), "SERVICE": f"broker-{number}", "[LINES]": "9", "[WORD]": "status"}
    line = "  ".join(stands_for.get(part, part) for part in form.parts)
    assert parse_command(line.upper() if is_upper else line).verb is form.verb
    assert form.parts[0] in FIRST_WORDS
