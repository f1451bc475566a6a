"""A secret does not show itself, however it is printed, logged or serialized."""

from __future__ import annotations

import copy
import json
import logging
import pickle

import pytest

from penstock.core.authentication.secret import Secret

VALUE = "s3cr3t-value"


def test_the_value_is_revealed_on_request_only() -> None:
    secret = Secret(VALUE)
    assert secret.reveal() == VALUE.encode()
    assert secret.reveal_text() == VALUE
    for text in (
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret:>20}",
        f"{secret!r}",
        f"{[secret]}",
    ):
        assert VALUE not in text
        assert "***" in text


def test_logs_do_not_show_it(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("penstock.test").warning("password %s %r", Secret(VALUE), {"key": Secret(VALUE)})
    assert VALUE not in caplog.text


def test_it_is_not_serialized() -> None:
    secret = Secret(VALUE)
    for serialize in (json.dumps, pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            serialize(secret)
    assert not hasattr(secret, "__dict__")


def test_it_is_compared_and_not_hashed() -> None:
    assert Secret("a") == Secret(b"a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert not Secret("")
    with pytest.raises(TypeError):
        hash(Secret("a"))


def test_an_error_about_its_encoding_does_not_show_it() -> None:
    with pytest.raises(ValueError, match="not UTF-8") as raised:
        Secret(b"abc\xff").reveal_text()
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__
