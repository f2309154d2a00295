"""One process submits for an account: tokens only grow, and the older holder is off."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from chordesk.models.errors import FencedOff
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Submitter
from chordesk.tools.orders import accounts
from chordesk.tools.orders.accounts import FencingLease
from chordesk.tools.orders.flow import process_decision
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.tape import Tape

NewDesk = Callable[..., Desk]


def test_tokens_only_grow_and_only_the_last_one_is_in_force(new_desk: NewDesk) -> None:
    store = new_desk().store
    assert [accounts.take(store, "paper", name) for name in ("one", "two", "three")] == [1, 2, 3]
    assert accounts.take(store, "alpaca-paper", "elsewhere") == 1
    with store.session() as session:
        accounts.require(session, "paper", 3)
        with pytest.raises(FencedOff, match=r"token 2 of account paper is no longer in force.*3, taken by three"):
            accounts.require(session, "paper", 2)
        with pytest.raises(FencedOff, match="the one that is: none"):
            accounts.require(session, "alpaca-live", 1)


def test_takers_at_the_same_time_get_tokens_of_their_own(new_desk: NewDesk) -> None:
    store = new_desk().store
    tokens: list[int] = []
    threads = [threading.Thread(target=lambda: tokens.append(accounts.take(store, "paper", "one"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(tokens) == list(range(1, 9))


def test_a_lease_is_taken_once_and_never_again_by_itself(new_desk: NewDesk) -> None:
    store = new_desk().store
    old, new = FencingLease(store, "paper", "old"), FencingLease(store, "paper", "new")
    assert (old.acquire(), old.acquire(), new.acquire()) == (1, 1, 2)
    old.mark_reconciled()
    for _ in range(2):
        with pytest.raises(FencedOff, match="taken by new"):
            old.acquire()
    with store.session() as session:
        accounts.release(session, "paper")
    assert old.acquire() == 4
    assert old.seconds_since_reconciled() is None, "somebody else traded meanwhile"
    with pytest.raises(FencedOff, match="taken by old"):
        new.acquire()


def test_two_trade_workers_by_mistake_and_the_older_one_sends_nothing(new_desk: NewDesk) -> None:
    desk = new_desk()
    assert desk.run(action())[0].state == OrderState.FILLED
    newer = FencingLease(desk.store, "paper", "the newer worker")
    newer.acquire()
    decision = desk.decide(action("BBB"))
    with pytest.raises(FencedOff, match="the newer worker"):
        desk.process(decision)
    assert [row.symbol for row in desk.orders()] == ["AAA"], "who is fenced off leaves the decision as it is"
    done = process_decision(desk.store, desk.settings, desk.market, desk.broker, decision, newer)
    assert [row.state for row in done] == [OrderState.FILLED]
    assert sorted((row.symbol, row.fence or 0) for row in desk.orders()) == [("AAA", 1), ("BBB", 2)]


def test_fenced_off_between_two_orders_the_second_is_not_sent(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0})
    desk = new_desk(market)

    def another() -> None:
        market.on_fill = None
        accounts.take(desk.store, "paper", "another")

    market.on_fill = another
    with pytest.raises(FencedOff):
        desk.run(action("AAA"), action("BBB"))
    assert [(row.symbol, row.state) for row in desk.orders()] == [("AAA", "filled"), ("BBB", "approved")]
    with desk.store.read() as session:
        assert session.get_one(Submitter, "paper").owner == "another"
