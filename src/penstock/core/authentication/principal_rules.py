"""Rules that map names of certificates to user names, in the form of Kafka's ssl.principal.mapping.rules.

    RULE:^CN=(.*?),OU=services.*$/$1/L,RULE:^CN=(.*?),.*$/$1/,DEFAULT

The first rule whose pattern matches the whole name decides; DEFAULT takes the name as it is; a name that no rule
matches is refused. Patterns are in RE2 syntax: linear time, so that a certificate cannot hold up the broker.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import re2

from penstock.core.authentication.failure import AuthFailureKind, NotAuthenticated
from penstock.core.authentication.principal import NAME_CHARS_MAX
from penstock.core.errors import InvalidConfig

DEFAULT = "DEFAULT"
RULES_MAX = 64
PATTERN_CHARS_MAX = 1024
_MEMORY_BYTES = 1 << 20

_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_REFERENCE = re.compile(r"\\(.)|\$(\d)", re.DOTALL)


class _Rule(NamedTuple):
    """A rule without a pattern is DEFAULT."""

    pattern: re2._Regexp | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """The user name; None if the rule does not match."""
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None

        def expand(found: re.Match[str]) -> str:
            return found[1] if found[1] is not None else match.group(int(found[2])) or ""

        user = _REFERENCE.sub(expand, self.replacement)
        return user.lower() if self.case == "L" else user.upper() if self.case == "U" else user


class PrincipalRules:
    """The rules of a broker, in order."""

    def __init__(self, text: str = DEFAULT) -> None:
        """Raises InvalidConfig."""
        self._rules = _parse(text)

    def user(self, name: str) -> str:
        """The user name for the name in a certificate. Raises NotAuthenticated."""
        if len(name) <= NAME_CHARS_MAX:
            for rule in self._rules:
                user = rule.apply(name)
                if user is not None:
                    return user
        raise NotAuthenticated(
            AuthFailureKind.CREDENTIALS,
            "authentication failed: no principal mapping rule applies to the name in the certificate",
            f"no principal mapping rule applies to {name[:NAME_CHARS_MAX]!r}",
        )


def _parse(text: str) -> tuple[_Rule, ...]:
    rules: list[_Rule] = []
    rest = text.strip()
    while rest:
        rule, rest = _first(rest)
        rules.append(rule)
        if rest and not rest.startswith((",", "\n")):
            raise InvalidConfig(f"principal rules: expected a comma before {rest[:40]!r}")
        follows = rest[1:].strip()
        if rest and not follows:
            raise InvalidConfig("principal rules: nothing follows the last comma")
        rest = follows
    if not rules or len(rules) > RULES_MAX:
        raise InvalidConfig(f"principal rules: expected 1 to {RULES_MAX} rules, got {len(rules)}")
    return tuple(rules)


def _first(text: str) -> tuple[_Rule, str]:
    """The first rule, and the text after it without spaces."""
    if re.match(rf"{DEFAULT}(?![A-Za-z])", text):
        return _Rule(), text[len(DEFAULT) :].lstrip(" \t")
    match = _RULE.match(text)
    if match is None:
        raise InvalidConfig(
            f"principal rules: {text[:40]!r} is neither {DEFAULT} nor of the form RULE:pattern/replacement/[LU]"
        )
    pattern, replacement, case = match.groups()
    compiled = _compile(pattern)
    for found in _REFERENCE.finditer(replacement):
        if found[2] is not None and int(found[2]) > compiled.groups:
            raise InvalidConfig(
                f"principal rules: {replacement!r} refers to group {found[2]}, but {pattern!r} has {compiled.groups}"
            )
    return _Rule(compiled, replacement, case), text[match.end() :].lstrip(" \t")


def _compile(pattern: str) -> re2._Regexp:
    if len(pattern) > PATTERN_CHARS_MAX:
        raise InvalidConfig(f"principal rules: a pattern has at most {PATTERN_CHARS_MAX} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "invalid syntax"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidConfig(
            f"principal rules: {pattern!r} is not a valid regular expression in RE2 syntax, which has no"
            f" look-around and no back-references: {text}"
        ) from None
