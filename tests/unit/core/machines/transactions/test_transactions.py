"""Transactional ids decided: fencing, epochs, ends that come late or twice, V1 and V2."""

from __future__ import annotations

import pytest

from penstock.core.errors import (
    BrokerError,
    FencedProducer,
    InvalidTransactionState,
    TransactionAbortable,
    TransactionBusy,
    UnknownTransaction,
    WrongProducer,
)
from penstock.core.machines.transactions.transactions import Claim, Transactions
from penstock.core.machines.transactions.values import (
    EPOCH_MAX,
    NEXT,
    Enlisted,
    Event,
    Transaction,
    TransactionForgotten,
    TransactionSaved,
    TransactionState,
)
from penstock.core.model import TopicPartition

A, B = Enlisted("orders", 0), Enlisted("orders", 1)
AT_A, AT_B = TopicPartition("orders", 0), TopicPartition("orders", 1)
OLD, NEW = Enlisted("orders", 0, b"old topic's id.."), Enlisted("orders", 0, b"new topic's id..")
NAME = "pay"


class Desk:
    """A machine with one transactional id, decided and applied in one go."""

    def __init__(self, known: Transaction | None = None, *, is_v2: bool = False) -> None:
        self.machine = Transactions()
        self.is_v2 = is_v2
        self.next_id = 100
        self.now_ms = 1_000
        if known is not None:
            self.machine.apply(TransactionSaved(known))

    @property
    def one(self) -> Transaction:
        return self.machine.get(NAME)

    @property
    def claim(self) -> Claim:
        return Claim(self.one.producer_id, self.one.producer_epoch)

    def _apply(self, events: list[Event]) -> list[Event]:
        for event in events:
            self.machine.apply(event)
        return events

    def init(self, expected: Claim | None = None) -> tuple[int, int]:
        self.next_id += 1
        self._apply(self.machine.decide_init(NAME, 60_000, expected, new_id=self.next_id, now_ms=self.now_ms))
        return self.one.producer_id, self.one.producer_epoch

    def add(self, *places: Enlisted, by: Claim | None = None) -> list[Event]:
        return self._apply(
            self.machine.decide_add(NAME, by or self.claim, places, now_ms=self.now_ms, is_v2=self.is_v2)
        )

    def end(self, by: Claim | None = None, *, commit: bool = True) -> list[Event]:
        self.next_id += 1
        return self._apply(
            self.machine.decide_end(
                NAME,
                by or self.claim,
                commit=commit,
                is_v2=self.is_v2,
                new_id=self.next_id,
                now_ms=self.now_ms,
            )
        )

    def complete(self) -> None:
        self._apply(self.machine.decide_complete(NAME, self.now_ms))

    def run_one(self, *, commit: bool = True) -> None:
        """A whole transaction."""
        self.add(A)
        self.end(commit=commit)
        self.complete()


def refuses(error: type[BrokerError], desk: Desk, act: str, *arguments: object, **more: object) -> None:
    """The call is refused and changes nothing."""
    before = desk.machine.all
    with pytest.raises(error):
        getattr(desk, act)(*arguments, **more)
    assert desk.machine.all == before


class TestProducers:
    def test_a_new_id_gets_epoch_zero_and_every_later_producer_one_more(self) -> None:
        desk = Desk()
        assert [desk.init(), desk.init(), desk.init()] == [(101, 0), (101, 1), (101, 2)]

    @pytest.mark.parametrize("said", [Claim(0, 0), Claim(7, 3)])
    def test_a_new_id_takes_whatever_the_producer_says_it_was(self, said: Claim) -> None:
        assert Desk().init(said) == (101, 0)

    def test_a_producer_that_says_who_it_is_goes_on_with_the_next_epoch(self) -> None:
        desk = Desk()
        desk.init()
        assert desk.init(Claim(101, 0)) == (101, 1)

    def test_the_same_request_again_gets_the_same_answer(self) -> None:
        desk = Desk()
        desk.init()
        assert desk.init(Claim(101, 0)) == desk.init(Claim(101, 0)) == (101, 1)

    def test_a_producer_that_was_replaced_is_fenced(self) -> None:
        desk = Desk()
        desk.init()
        desk.init()
        refuses(FencedProducer, desk, "init", Claim(101, 0))
        refuses(FencedProducer, desk, "init", Claim(55, 1))

    def test_an_open_transaction_is_aborted_first_under_an_epoch_that_nobody_gets(self) -> None:
        desk = Desk()
        desk.init()
        desk.add(A)
        desk.init()
        assert (desk.one.state, desk.one.producer_epoch, desk.one.partitions) == (
            TransactionState.PREPARE_ABORT,
            1,
            (A,),
        )
        refuses(TransactionBusy, desk, "init")
        desk.complete()
        assert desk.init() == (101, 2)

    def test_used_up_epochs_lead_to_a_new_producer_id(self) -> None:
        desk = Desk(Transaction(NAME, 5, EPOCH_MAX - 1))
        assert desk.init() == (101, 0)
        assert desk.one.previous_producer_id == 5

    def test_the_request_that_used_them_up_may_come_again(self) -> None:
        desk = Desk(Transaction(NAME, 5, EPOCH_MAX - 1))
        last = Claim(5, EPOCH_MAX - 1)
        assert desk.init(last) == desk.init(last) == (101, 0)
        refuses(FencedProducer, desk, "init", Claim(5, EPOCH_MAX - 2))

    def test_fencing_at_the_last_epoch_still_leaves_one_for_the_markers(self) -> None:
        desk = Desk(
            Transaction(NAME, 5, EPOCH_MAX - 1, state=TransactionState.ONGOING, partitions=(A,), started_ms=1)
        )
        desk.init()
        assert (desk.one.producer_id, desk.one.producer_epoch) == (5, EPOCH_MAX)
        desk.complete()
        producer_id, epoch = desk.init()
        assert producer_id > 100 and epoch == 0


class TestPartitions:
    def test_the_first_opens_the_transaction_and_more_join_it(self) -> None:
        desk = Desk()
        desk.init()
        desk.add(B)
        desk.now_ms = 2_000
        desk.add(A, B)
        assert (desk.one.state, desk.one.partitions, desk.one.started_ms) == (
            TransactionState.ONGOING,
            (A, B),
            1_000,
        )
        assert desk.add(A) == []

    def test_the_next_transaction_starts_without_the_partitions_of_the_last(self) -> None:
        desk = Desk()
        desk.init()
        desk.run_one()
        desk.now_ms = 5_000
        desk.add(B)
        assert (desk.one.partitions, desk.one.started_ms) == ((B,), 5_000)

    def test_others_are_refused(self) -> None:
        desk = Desk()
        with pytest.raises(WrongProducer):
            desk.add(A, by=Claim(1, 0))
        desk.init()
        refuses(WrongProducer, desk, "add", A, by=Claim(1, 0))
        refuses(FencedProducer, desk, "add", A, by=Claim(101, 1))
        desk.init()
        refuses(FencedProducer, desk, "add", A, by=Claim(101, 0))

    def test_nothing_joins_a_transaction_that_is_being_completed(self) -> None:
        desk = Desk()
        desk.init()
        desk.add(A)
        desk.end()
        refuses(TransactionBusy, desk, "add", B)

    def test_only_what_is_in_the_open_transaction_is_vouched_for(self) -> None:
        desk = Desk()
        desk.init()
        machine, by = desk.machine, desk.claim
        with pytest.raises(TransactionAbortable):
            machine.check_partitions(NAME, by, [AT_A])
        desk.add(A)
        machine.check_partitions(NAME, by, [AT_A])
        with pytest.raises(TransactionAbortable):
            machine.check_partitions(NAME, by, [AT_A, AT_B])
        with pytest.raises(FencedProducer):
            machine.check_partitions(NAME, Claim(101, 9), [AT_A])
        with pytest.raises(WrongProducer):
            machine.check_partitions("other", by, [AT_A])
        desk.end()
        with pytest.raises(TransactionBusy):
            machine.check_partitions(NAME, by, [AT_A])
        desk.complete()
        with pytest.raises(TransactionAbortable):
            machine.check_partitions(NAME, by, [AT_A])

    def test_a_partition_of_a_topic_that_was_created_again_takes_the_place_of_the_old_one(self) -> None:
        desk = Desk()
        desk.init()
        desk.add(OLD, B)
        machine = desk.machine
        machine.check_partitions(NAME, desk.claim, [AT_A])
        assert machine.are_enlisted(NAME, [OLD]) and not machine.are_enlisted(NAME, [NEW])
        desk.add(NEW)
        assert desk.one.partitions == (NEW, B)
        assert desk.add(NEW) == []

    def test_a_name_without_an_id_is_given_the_id_when_it_is_added_again(self) -> None:
        desk = Desk(Transaction(NAME, 5, 0, state=TransactionState.ONGOING, partitions=(A, B), started_ms=1))
        desk.add(NEW)
        assert desk.one.partitions == (NEW, B)


class TestEndV1:
    @pytest.mark.parametrize("commit", [True, False])
    def test_the_epoch_stays_and_the_same_end_may_come_again(self, commit: bool) -> None:
        desk = Desk()
        desk.init()
        desk.add(A)
        desk.end(commit=commit)
        assert desk.one.is_commit == commit and desk.one.producer_epoch == 0
        refuses(TransactionBusy, desk, "end", commit=commit)
        refuses(InvalidTransactionState, desk, "end", commit=not commit)
        desk.complete()
        assert desk.end(commit=commit) == []
        refuses(InvalidTransactionState, desk, "end", commit=not commit)

    def test_there_must_be_something_to_end(self) -> None:
        desk = Desk()
        desk.init()
        refuses(InvalidTransactionState, desk, "end", commit=True)
        refuses(InvalidTransactionState, desk, "end", commit=False)

    def test_others_are_refused(self) -> None:
        desk = Desk()
        desk.init()
        desk.add(A)
        refuses(FencedProducer, desk, "end", Claim(101, 1))
        refuses(WrongProducer, desk, "end", Claim(1, 0))


class TestEndV2:
    def test_each_end_bumps_the_epoch(self) -> None:
        desk = Desk(is_v2=True)
        desk.init()
        for epoch in (1, 2, 3):
            desk.add(A)
            desk.end(commit=epoch % 2 == 0)
            assert desk.one.for_producer == (101, epoch)
            desk.complete()
            assert desk.one.for_producer == (101, epoch)

    def test_a_late_end_cannot_touch_the_next_transaction(self) -> None:
        desk = Desk(is_v2=True)
        desk.init()
        first = desk.claim
        desk.run_one(commit=False)
        desk.add(A)
        for commit in (True, False):
            refuses(FencedProducer, desk, "end", first, commit=commit)

    def test_the_same_end_may_come_again_until_the_next_transaction(self) -> None:
        desk = Desk(is_v2=True)
        desk.init()
        first = desk.claim
        desk.add(A)
        desk.end()
        refuses(TransactionBusy, desk, "end", first)
        refuses(InvalidTransactionState, desk, "end", first, commit=False)
        desk.complete()
        assert desk.end(first) == []
        refuses(InvalidTransactionState, desk, "end", first, commit=False)

    def test_an_abort_of_nothing_bumps_the_epoch_and_a_commit_of_nothing_is_refused(self) -> None:
        desk = Desk(is_v2=True)
        desk.init()
        refuses(InvalidTransactionState, desk, "end", commit=True)
        desk.end(commit=False)
        assert (desk.one.state, desk.one.producer_epoch, desk.one.partitions) == (
            TransactionState.PREPARE_ABORT,
            1,
            (),
        )
        desk.complete()
        desk.end(commit=False)
        assert desk.one.producer_epoch == 2

    def test_the_last_epoch_leads_to_a_new_producer_id(self) -> None:
        desk = Desk(Transaction(NAME, 5, EPOCH_MAX - 1), is_v2=True)
        last = desk.claim
        desk.add(A)
        desk.end()
        assert (desk.one.producer_id, desk.one.producer_epoch) == (5, EPOCH_MAX), (
            "the markers fence the old id"
        )
        assert desk.one.for_producer == (101, 0)
        desk.complete()
        assert desk.claim == Claim(101, 0)
        assert desk.end(last) == [], "the answer was lost and the producer asks again"
        assert desk.one.for_producer == (101, 0)


class TestTime:
    def test_a_transaction_times_out_from_its_first_partition_on(self) -> None:
        desk = Desk()
        desk.init()
        assert desk.machine.timed_out(10**9) == []
        desk.add(A)
        assert desk.machine.timed_out(61_000) == []
        assert [one.transactional_id for one in desk.machine.timed_out(61_001)] == [NAME]

    def test_what_took_too_long_is_aborted_and_its_producer_fenced(self) -> None:
        desk = Desk()
        desk.init()
        desk.add(A)
        (event,) = desk.machine.decide_fence(NAME, 61_001)
        desk.machine.apply(event)
        assert (desk.one.state, desk.one.producer_epoch) == (TransactionState.PREPARE_ABORT, 1)
        refuses(FencedProducer, desk, "end", Claim(101, 0))
        desk.complete()
        refuses(FencedProducer, desk, "add", A, by=Claim(101, 0))
        assert desk.machine.timed_out(10**9) == []

    def test_only_unused_ids_are_forgotten(self) -> None:
        desk = Desk()
        desk.init()
        assert desk.machine.decide_expire(2_000, 1_000) == []
        assert desk.machine.decide_expire(2_001, 1_000) == [TransactionForgotten(NAME)]
        desk.add(A)
        assert desk.machine.decide_expire(10**9, 1_000) == []
        desk.end()
        assert desk.machine.decide_expire(10**9, 1_000) == []
        desk.complete()
        for event in desk.machine.decide_expire(10**9, 1_000):
            desk.machine.apply(event)
        with pytest.raises(UnknownTransaction):
            desk.machine.get(NAME)


def test_the_table_leads_out_of_every_state() -> None:
    for state in TransactionState:
        assert any(source is state for source, _ in NEXT), state
    reached = {target for target in NEXT.values() if target is not None}
    assert reached == set(TransactionState)


def test_values_are_whole() -> None:
    one = Transaction(NAME, 5, 3)
    assert one._replace(next_producer_id=9).for_producer == (9, 0) and one.for_producer == (5, 3)
