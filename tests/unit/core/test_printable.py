"""What is safe to show on a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.printable import escape


@given(st.text())
def test_the_outcome_is_printable_and_printable_text_stays(text: str) -> None:
    shown = escape(text)
    assert shown.isprintable()
    assert shown == text or not text.isprintable()


def test_what_controls_a_terminal_is_written_out() -> None:
    assert escape("a\x1b[2J\x9b1m\x07\r\n\u202eb") == r"a\x1b[2J\x9b1m\x07\r\n\u202eb"
