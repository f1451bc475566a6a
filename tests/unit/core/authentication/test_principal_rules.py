"""Mapping rules in the form of Kafka: which rule decides, what it makes of a name, and what is refused."""

from __future__ import annotations

import pytest

from penstock.core.authentication.failure import NotAuthenticated
from penstock.core.authentication.principal_rules import PATTERN_CHARS_MAX, PrincipalRules
from penstock.core.errors import InvalidConfig

KAFKA_EXAMPLE = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,"
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        ("CN=duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=john.doe,OU=x", "JOHN.DOE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_example_of_kafka(name: str, user: str) -> None:
    assert PrincipalRules(KAFKA_EXAMPLE).user(name) == user


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("DEFAULT", "CN=a", "CN=a"),
        (" DEFAULT ", "CN=a", "CN=a"),
        ("RULE:^CN=(.*)$/user-$1/ , DEFAULT", "CN=a", "user-a"),
        ("RULE:^CN=(.*)$/$1/\nDEFAULT", "CN=a", "a"),
        (r"RULE:^CN=(.*?)\/x$/$1\/$1/", "CN=a/x", "a/a"),
        (r"RULE:^CN=(.*)$/\$1/", "CN=a", "$1"),
        ("RULE:^CN=(a)|CN=(b)$/$1$2/", "CN=b", "b"),
        ("RULE:CN=.*/service/", "CN=a,O=b", "service"),
        ("RULE:^spiffe:\\/\\/example.org\\/(.*)$/$1/", "spiffe://example.org/ns/app", "ns/app"),
    ],
)
def test_rules(rules: str, name: str, user: str) -> None:
    assert PrincipalRules(rules).user(name) == user


@pytest.mark.parametrize("name", ["CN=b", "xCN=a", "CN=a,O=c"])
def test_a_pattern_must_match_the_whole_name(name: str) -> None:
    with pytest.raises(NotAuthenticated, match="no principal mapping rule"):
        PrincipalRules("RULE:CN=a/a/").user(name)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("", "expected 1 to 64 rules"),
        ("default", "neither DEFAULT nor"),
        ("DEFAULTS", "neither DEFAULT nor"),
        ("RULE:^CN=(.*)$", "neither DEFAULT nor"),
        ("RULE:^CN=(.*)$/$1", "neither DEFAULT nor"),
        ("RULE:^CN=(.*)$/$1/X", "expected a comma before 'X'"),
        ("DEFAULT,", "nothing follows"),
        ("DEFAULT,,DEFAULT", "neither DEFAULT nor"),
        ("RULE:^CN=(.*$/$1/", "not a valid regular expression"),
        ("RULE:^(?=CN).*$/x/", "no look-around"),
        (r"RULE:^(.*)\1$/x/", "no look-around and no back-references"),
        ("RULE:^CN=(.*)$/$2/", r"refers to group 2, but '\^CN=\(\.\*\)\$' has 1"),
        (f"RULE:{'a' * (PATTERN_CHARS_MAX + 1)}/x/", "at most 1024 characters"),
        (",".join(["DEFAULT"] * 65), "expected 1 to 64 rules"),
    ],
)
def test_invalid_rules_are_refused(rules: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        PrincipalRules(rules)


def test_a_pattern_that_would_explode_elsewhere_ends() -> None:
    rules = PrincipalRules("RULE:^(a+)+(a+)+(a+)+$/x/")
    with pytest.raises(NotAuthenticated):
        rules.user("a" * 1000 + "!")


def test_a_name_without_end_is_refused() -> None:
    with pytest.raises(NotAuthenticated):
        PrincipalRules().user("C" * 100_000)
