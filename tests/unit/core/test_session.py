"""Sessions: made with the connection, replaced as more becomes known."""

from __future__ import annotations

from penstock.core.session import ANONYMOUS, Session, broker_principal


def test_a_new_session_is_anonymous() -> None:
    session = Session("kafka", address="10.0.0.7")
    assert (session.principal, session.client_id, session.software) == (ANONYMOUS, None, "")


def test_learning_more_leaves_the_rest_as_it_was() -> None:
    session = Session("kafka", address="10.0.0.7")
    later = session.with_client("billing").with_software("apache-kafka-java", "4.0")
    assert later == Session("kafka", ANONYMOUS, "10.0.0.7", "billing", "apache-kafka-java", "4.0")
    assert later.software == "apache-kafka-java 4.0"
    assert session.client_id is None


def test_a_broker_is_known_by_its_principal() -> None:
    session = Session("kafka").with_principal(broker_principal(7))
    assert session.principal == "Broker:7" and session.is_broker
    assert not Session("kafka").is_broker and not Session("kafka", "User:Broker:7").is_broker
    assert session.with_client("x").is_broker
