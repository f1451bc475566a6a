"""Questions about access in words, such as "may alice read orders?", and their answers with reasons. Changes nothing.

    may <user> <operation> [topic|group|subscription|transactional-id] <name> [from <address>]?
    may <user> <operation> cluster?
    may <user> <operation> any topic|group|transactional-id?

A name that is also a word of this grammar, or has spaces, is quoted. Subscriptions are groups.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import NamedTuple

from penstock.core.access import CLUSTER, OPERATIONS, Operation, Resource, ResourceType
from penstock.core.errors import InvalidRequest
from penstock.core.printable import escape
from penstock.core.security.acl import is_ip_address
from penstock.core.security.acl_table import AclTable
from penstock.core.security.decision import (
    AccessDecision,
    AccessReason,
    AccessRequest,
    decide_access,
    decide_any_access,
    explain_access,
    related_acls,
)
from penstock.core.security.security_limits import QUESTION_CHARS_MAX
from penstock.core.session import ANONYMOUS

EXAMPLE = 'write it as in "may alice read orders?" or "may alice describe group billing from 10.0.0.1?"'
UNNAMED_HOST = ""
"""The host of a question without one: ACLs for every host apply, those for a single host do not."""

_SYNONYMS = {"produce": Operation.WRITE, "consume": Operation.READ}
_VERBS = {one.name.lower().replace("_", "-"): one for one in Operation} | _SYNONYMS
_TYPES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "subscription": ResourceType.GROUP,
    "cluster": ResourceType.CLUSTER,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
_TOKEN = re.compile(r"\"([^\"]*)\"|'([^']*)'|([^\s\"']+)")
_SPACE = re.compile(r"\s*")


class AccessQuestion(NamedTuple):
    """One question. Without a name it is about any resource of the type; without a host about hosts that no ACL
    names."""

    principal: str
    operation: Operation
    resource_type: ResourceType
    name: str | None
    host: str | None = None


class AccessAnswer(NamedTuple):
    """The decision, and for people the reason, hosts for which it differs, and ACLs that are close."""

    decision: AccessDecision
    lines: tuple[str, ...]


class _Token(NamedTuple):
    text: str
    is_quoted: bool

    @property
    def word(self) -> str | None:
        """The token as a word of the grammar; None if it is quoted."""
        return None if self.is_quoted else self.text.lower().replace("_", "-")


def parse_question(text: str) -> AccessQuestion:
    """Raises InvalidRequest, which says what is wrong and shows the form."""
    if len(text) > QUESTION_CHARS_MAX:
        raise InvalidRequest(f"a question has at most {QUESTION_CHARS_MAX} characters")
    tokens = _tokens(text)
    if tokens and tokens[0].word == "may":
        tokens = tokens[1:]
    if len(tokens) < 3:
        raise _unclear(text, "it needs a user, an operation and a resource")
    principal, operation = _principal(tokens[0]), _operation(tokens[1])
    rest, host = _without_host(tokens[2:])
    resource_type, name = _resource(text, rest)
    if operation not in OPERATIONS[resource_type]:
        allowed = ", ".join(_word(one) for one in OPERATIONS[resource_type])
        raise InvalidRequest(
            f"{_word(operation)} is not an operation on a {resource_type.name.lower()}; these are: {allowed}"
        )
    return AccessQuestion(principal, operation, resource_type, name, host)


def answer_question(table: AclTable, super_users: Container[str], question: AccessQuestion) -> AccessAnswer:
    """Decide a question as the broker would, and explain the decision."""
    principal, host = question.principal, UNNAMED_HOST if question.host is None else question.host
    decision = _decide(table, super_users, question, host)
    lines = [_explain(question, decision)]
    if question.host is None and decision.reason is not AccessReason.SUPER_USER:
        for other in sorted(table.hosts_of(question.resource_type, principal)):
            elsewhere = _decide(table, super_users, question, other)
            if elsewhere.is_allowed != decision.is_allowed:
                lines.append(f"from {escape(other)}: {_explain(question, elsewhere)}")
    if decision.reason is AccessReason.NO_ACL and question.name is not None:
        lines += [f"related: {acl.text}" for acl in related_acls(table, _request(question, host))]
    return AccessAnswer(decision, tuple(lines))


def _decide(
    table: AclTable, super_users: Container[str], question: AccessQuestion, host: str
) -> AccessDecision:
    principal, operation, resource_type, name, _ = question
    if name is None:
        return decide_any_access(table, super_users, principal, host, operation, resource_type)
    return decide_access(table, super_users, _request(question, host))


def _request(question: AccessQuestion, host: str) -> AccessRequest:
    assert question.name is not None
    resource = Resource(question.resource_type, question.name)
    return AccessRequest(question.principal, host, question.operation, resource)


def _explain(question: AccessQuestion, decision: AccessDecision) -> str:
    if question.name is not None:
        return explain_access(_request(question, UNNAMED_HOST), decision)
    may = "may" if decision.is_allowed else "may not"
    kind = question.resource_type.name
    asked = f"{escape(question.principal)} {may} {question.operation.name} any {kind}"
    return f"{asked}: {decision.reason.value if decision.acl is None else decision.acl.text}"


def _tokens(text: str) -> list[_Token]:
    text = text.strip()
    text = text.removesuffix("?")
    found: list[_Token] = []
    position = _end_of_space(text, 0)
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unclear(text, "a quotation mark is not closed")
        double, single, plain = match.groups()
        found.append(_Token(plain, False) if plain is not None else _Token(double or single or "", True))
        position = _end_of_space(text, match.end())
    return found


def _end_of_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None
    return match.end()


def _principal(token: _Token) -> str:
    if token.word == "anonymous":
        return ANONYMOUS
    if not token.text:
        raise InvalidRequest(f"the user name is empty; {EXAMPLE}")
    return token.text if ":" in token.text else f"User:{token.text}"


def _operation(token: _Token) -> Operation:
    found = _VERBS.get(token.word or "")
    if found is None:
        raise InvalidRequest(
            f"{escape(token.text)!r} is not an operation; operations are: {', '.join(sorted(_VERBS))}"
        )
    return found


def _without_host(tokens: list[_Token]) -> tuple[list[_Token], str | None]:
    if len(tokens) < 3 or tokens[-2].word != "from":
        return tokens, None
    host = tokens[-1].text
    if not is_ip_address(host):
        raise InvalidRequest(f"{escape(host)!r} is not an IP address; ACLs are compared with addresses")
    return tokens[:-2], host


def _resource(text: str, tokens: list[_Token]) -> tuple[ResourceType, str | None]:
    match tokens:
        case [one] if one.word == "cluster":
            return CLUSTER.type, CLUSTER.name
        case [one] if one.text:
            return ResourceType.TOPIC, one.text
        case [first, kind] if first.word == "any":
            return _type(text, kind, is_plural_allowed=True), None
        case [kind, name] if name.text:
            resource_type = _type(text, kind)
            if resource_type is ResourceType.CLUSTER and name.text != CLUSTER.name:
                raise InvalidRequest(f"the only cluster is {CLUSTER.name!r}; leave the name out")
            return resource_type, name.text
    raise _unclear(text, "it needs one resource; quote a name that has spaces")


def _type(text: str, token: _Token, *, is_plural_allowed: bool = False) -> ResourceType:
    word = token.word or ""
    found = _TYPES.get(word.removesuffix("s") if is_plural_allowed else word)
    if found is None:
        raise _unclear(
            text, f"{escape(token.text)!r} is not a resource type; types are: {', '.join(sorted(_TYPES))}"
        )
    return found


def _word(operation: Operation) -> str:
    return operation.name.lower().replace("_", "-")


def _unclear(text: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"cannot understand {escape(text)!r}: {reason}; {EXAMPLE}")
