"""Compares values with the schemas of `penstock.apps.cli.output_schemas`. Knows the notation, and no command."""

from __future__ import annotations

import re
from typing import Any

_TOKEN = re.compile(r"\s*(LINES OF|\.\.\.|\*|[A-Za-z_][A-Za-z0-9_]*|[][{}:,?|])")
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


class Schema:
    """One parsed schema."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        assert "".join(self._tokens).replace(" ", "") == text.replace(" ", ""), text
        self.is_lines = "LINES OF" in self._tokens
        self._forms = [self._form()]
        while self._peek() == "|":
            self._take("|")
            self._forms.append(self._form())
        assert not self._tokens, self._tokens

    def problem(self, value: Any) -> str:
        """Why a value matches no form; empty if it matches one."""
        found = [_problem(form, value, "$") for form in self._forms]
        return "" if "" in found else " and ".join(found)

    def _peek(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def _take(self, wanted: str | None = None) -> str:
        token = self._tokens.pop(0)
        assert wanted in (None, token), (wanted, token, self._tokens)
        return str(token)

    def _form(self) -> Any:
        if self._peek() == "LINES OF":
            self._take()
        return self._value()

    def _value(self) -> Any:
        token = self._take()
        if token == "[":
            kind: Any = ["list", self._value()]
            self._take("]")
        elif token == "{":
            kind = ["object", self._fields()]
        else:
            assert token in _KINDS or token == "any", token
            kind = token
        if self._peek() == "?":
            self._take()
            kind = ["null", kind]
        return kind

    def _fields(self) -> dict[str, tuple[bool, Any]]:
        fields: dict[str, tuple[bool, Any]] = {}
        while True:
            name = self._take()
            if name == "...":
                fields["..."] = (True, "any")
            else:
                is_optional = self._peek() == "?"
                if is_optional:
                    self._take()
                self._take(":")
                fields[name] = (is_optional or name == "*", self._value())
            if self._take() == "}":
                return fields


def _problem(kind: Any, value: Any, at: str) -> str:
    if kind == "any":
        return ""
    if isinstance(kind, str):
        is_it = isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))
        return "" if is_it else f"{at} is {value!r}, not {kind}"
    if kind[0] == "null":
        return "" if value is None else _problem(kind[1], value, at)
    if kind[0] == "list":
        if not isinstance(value, list):
            return f"{at} is {value!r}, not a list"
        found = [_problem(kind[1], one, f"{at}[{number}]") for number, one in enumerate(value)]
        return next(filter(None, found), "")
    return _object_problem(kind[1], value, at)


def _object_problem(fields: dict[str, tuple[bool, Any]], value: Any, at: str) -> str:
    if not isinstance(value, dict):
        return f"{at} is {value!r}, not an object"
    for name, (is_optional, _) in fields.items():
        if not is_optional and name not in value:
            return f"{at} has no {name}"
    for name, one in value.items():
        _, kind = fields.get(name) or fields.get("*") or fields.get("...") or (True, None)
        if kind is None:
            return f"{at} has an unknown {name}"
        problem = _problem(kind, one, f"{at}.{name}")
        if problem:
            return problem
    return ""
