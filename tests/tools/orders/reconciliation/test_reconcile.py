"""Comparing the books with the broker's account: the real client against the stand-in, and the paper account."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from sqlmodel import select, update

from chordesk.models.errors import OrderError
from chordesk.models.orders import BrokerState
from chordesk.models.states import TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, Order, Position, Reconciliation
from chordesk.tools.brokers.alpaca import BrokerSilent
from chordesk.tools.orders import halting
from chordesk.tools.orders.reconciliation import reconcile
from tests.fakes.alpaca import Alpaca
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.tape import Tape

NewDesk = Callable[..., Desk]
PUT = "AAA261218P00090000"


@pytest.fixture
def desk(alpaca: Alpaca, new_desk: NewDesk) -> Desk:
    """Yield a desk on the stand-in that sends without approval."""
    return new_desk(Tape({"AAA": 100.0, "BBB": 50.0}), broker="alpaca-paper", approval="auto")


def compare(desk: Desk, **options: Any) -> Reconciliation:
    return reconcile(desk.store, desk.settings, desk.broker, "a test", **options)


def kinds(found: Reconciliation) -> list[str]:
    return [row["kind"] for row in found.differences]


def trading(desk: Desk) -> tuple[TradingState, str]:
    with desk.store.read() as session:
        return halting.trading_state(session, desk.settings, desk.settings.account)


def state_of(desk: Desk) -> str:
    return desk.orders()[-1].state


def same_as(desk: Desk, alpaca: Alpaca) -> None:
    """Cash and positions of both sides are the same."""
    assert desk.positions() == {name: float(held) for name, (held, _) in alpaca.positions.items()}
    assert desk.cash() == float(alpaca.cash)


def submit(desk: Desk, alpaca: Alpaca) -> str:
    (sent,) = desk.run(action())
    assert (sent.state, alpaca.taken()) == ("submitted", {str(sent.order_id): 1})
    return str(sent.order_id)


def test_two_accounts_that_agree_are_one_row_however_often(desk: Desk, alpaca: Alpaca) -> None:
    alpaca.fills = "all"
    assert desk.run(action())[0].state == "filled"
    first, second = compare(desk), compare(desk)
    assert (first.agreed, first.differences, second.id) == (True, [], first.id)
    assert second.at > first.at
    same_as(desk, alpaca)
    assert trading(desk)[0] is TradingState.ACTIVE


def test_fills_without_a_notice_are_booked(desk: Desk, alpaca: Alpaca) -> None:
    order = submit(desk, alpaca)
    alpaca.fill(order, 4, 100)
    assert (kinds(compare(desk)), state_of(desk)) == (["order_state"], "partially_filled")
    same_as(desk, alpaca)
    alpaca.fill(order, 6, 101)
    found = compare(desk)
    assert (found.agreed, state_of(desk)) == (True, "filled")
    assert (found.differences[0]["desk"], found.differences[0]["broker"]) == (
        "partially_filled, 4 filled",
        "filled, 10 filled",
    )
    same_as(desk, alpaca)
    assert compare(desk).differences == []


@pytest.mark.parametrize("filled", [0, 4])
def test_an_end_without_a_notice_is_booked(desk: Desk, alpaca: Alpaca, filled: int) -> None:
    order = submit(desk, alpaca)
    if filled:
        alpaca.fill(order, filled, 100)
    alpaca.end(order, "canceled")
    assert (compare(desk).agreed, state_of(desk)) == (True, "cancelled")
    same_as(desk, alpaca)


@pytest.mark.parametrize(("fills", "state"), [("none", "submitted"), ("part", "partially_filled"), ("all", "filled")])
def test_an_order_that_turns_up_late_is_found_and_never_sent_again(
    desk: Desk, alpaca: Alpaca, fills: str, state: str
) -> None:
    alpaca.faults = ["500"]
    (lost,) = desk.run(action())
    assert (lost.state, alpaca.taken()) == ("unknown", {})
    assert (compare(desk).agreed, state_of(desk)) == (True, "unknown")
    wanted = {"symbol": "AAA", "qty": 10, "side": "buy", "type": "market", "time_in_force": "day"}
    alpaca.fills = fills
    alpaca.take({**wanted, "client_order_id": str(lost.order_id)})
    assert (compare(desk).agreed, state_of(desk)) == (True, state)
    assert alpaca.sends == [str(lost.order_id)]
    same_as(desk, alpaca)


def test_an_order_that_never_turns_up_ends_with_its_day(desk: Desk, alpaca: Alpaca) -> None:
    alpaca.faults = ["500"]
    desk.run(action())
    for hours, state in ((23, "unknown"), (25, "expired")):
        with desk.store.session() as session:
            session.execute(update(Order).values(sent_at=utcnow() - dt.timedelta(hours=hours)))
        assert (compare(desk).agreed, state_of(desk)) == (True, state)
    assert len(alpaca.sends) == 1


def test_a_position_that_no_order_explains_halts_until_it_is_taken_over(desk: Desk, alpaca: Alpaca) -> None:
    alpaca.hold("BBB", 7, 40)
    found = compare(desk)
    assert (found.agreed, kinds(found)) == (False, ["position"])
    state, why = trading(desk)
    assert state is TradingState.HALTED
    assert "position BBB: 0 here, 7 at the broker" in why
    assert "desk reconcile --adopt" in why
    assert desk.run(action())[0].state == "denied"
    assert alpaca.sends == []
    taken = compare(desk, adopt=True)
    assert (taken.agreed, kinds(taken)) == (True, ["adopted_position"])
    assert desk.positions() == {"BBB": 7}
    state, why = trading(desk)
    assert state is TradingState.HALTED  # a person lets it go on
    assert "position BBB: 0 here, 7 at the broker; the two agree again" in why
    assert "--adopt" not in why
    with desk.store.session() as session:
        halting.resume(session, desk.settings, desk.settings.account, "a person")
    assert compare(desk).differences == []
    assert submit(desk, alpaca)


def test_an_unexplained_difference_halts_though_it_cannot_be_put_on_record(desk: Desk, alpaca: Alpaca) -> None:
    alpaca.hold("BBB", 7, 40)
    (desk.settings.home / "audit").write_text("in the way")
    with pytest.raises(OrderError, match="cannot be written"):
        compare(desk)
    state, why = trading(desk)
    assert state is TradingState.HALTED
    assert "position BBB: 0 here, 7 at the broker" in why


def test_a_fresh_account_that_holds_something_is_taken_over_with_its_cash(desk: Desk, alpaca: Alpaca) -> None:
    alpaca.hold("BBB", -3, 40)
    alpaca.cash = Decimal("5432.10")
    taken = compare(desk, adopt=True)
    assert (taken.agreed, sorted(kinds(taken))) == (True, ["adopted_position", "cash"])
    assert (desk.positions(), desk.cash()) == ({"BBB": -3}, 5432.10)
    with desk.store.read() as session:
        assert session.exec(select(Position)).one().average_cost == 40


def _foreign_order(alpaca: Alpaca) -> None:
    wanted = {"symbol": "BBB", "qty": 5, "side": "buy", "type": "market", "time_in_force": "day"}
    alpaca.take({**wanted, "client_order_id": "by-hand"})


def test_a_foreign_fill_halts_and_is_remembered_once_taken_over(desk: Desk, alpaca: Alpaca) -> None:
    _foreign_order(alpaca)
    alpaca.fill("by-hand", 5, 50)
    found = compare(desk)
    assert (found.agreed, sorted(kinds(found))) == (False, ["fill", "position"])
    assert "fill BBB: no such order here, buy 5 at 50 at the broker" in trading(desk)[1]
    assert compare(desk, adopt=True).agreed
    again = compare(desk)
    assert (again.agreed, again.differences) == (True, [])
    same_as(desk, alpaca)


def test_a_foreign_sale_of_what_was_bought_back_is_found(desk: Desk, alpaca: Alpaca) -> None:
    """The positions agree, and still somebody else trades here."""
    _foreign_order(alpaca)
    alpaca.fill("by-hand", 5, 50)
    wanted = {"symbol": "BBB", "qty": 5, "side": "sell", "type": "market", "time_in_force": "day"}
    alpaca.take({**wanted, "client_order_id": "by-hand-too"})
    alpaca.fill("by-hand-too", 5, 50)
    found = compare(desk)
    assert (found.agreed, kinds(found), trading(desk)[0]) == (False, ["fill", "fill"], TradingState.HALTED)


def test_a_foreign_open_order_halts_and_is_not_taken_over(desk: Desk, alpaca: Alpaca) -> None:
    _foreign_order(alpaca)
    assert (compare(desk).agreed, trading(desk)[0]) == (False, TradingState.HALTED)
    assert not compare(desk, adopt=True).agreed
    alpaca.end("by-hand", "canceled")
    assert compare(desk).agreed


def test_a_fill_of_an_order_that_we_hold_for_ended_halts(desk: Desk, alpaca: Alpaca) -> None:
    order = submit(desk, alpaca)
    with desk.store.session() as session:
        session.execute(update(Order).values(state="expired"))
    alpaca.fill(order, 10, 100)
    found = compare(desk)
    assert (found.agreed, sorted(kinds(found))) == (False, ["fill", "position"])
    assert compare(desk, adopt=True).agreed
    assert compare(desk).differences == []
    same_as(desk, alpaca)


def test_a_blocked_account_halts(desk: Desk, alpaca: Alpaca) -> None:
    alpaca.blocked = True
    assert (compare(desk).agreed, trading(desk)[0]) == (False, TradingState.HALTED)
    assert "trading_blocked" in trading(desk)[1]
    assert not compare(desk, adopt=True).agreed


def test_fees_come_from_the_broker(desk: Desk, alpaca: Alpaca) -> None:
    alpaca.cash -= Decimal("0.37")
    found = compare(desk)
    assert (found.agreed, kinds(found), desk.cash()) == (True, ["cash"], 99_999.63)
    assert compare(desk).differences == []


def test_cash_is_left_alone_while_an_order_works(desk: Desk, alpaca: Alpaca) -> None:
    submit(desk, alpaca)
    alpaca.cash -= Decimal("0.37")
    assert (compare(desk).differences, desk.cash()) == ([], 100_000)


def test_an_assignment_is_booked_once(desk: Desk, alpaca: Alpaca) -> None:
    alpaca.hold(PUT, -1, 2)
    compare(desk, adopt=True)
    day = dt.datetime.now(dt.UTC).date().isoformat()
    for kind, symbol, quantity, price in (("OPASN", PUT, "1", None), ("OPTRD", "AAA", "100", "90")):
        row = {"id": "1::1", "activity_type": kind, "date": day, "symbol": symbol, "qty": quantity, "price": price}
        alpaca.activities.append({**row, "status": "executed"})
    alpaca.positions = {"AAA": (Decimal(100), Decimal(90))}
    alpaca.cash -= 9_000
    found = compare(desk)
    assert (found.agreed, kinds(found)) == (True, ["settlement", "settlement"])
    same_as(desk, alpaca)
    assert compare(desk).differences == []


def test_a_difference_seen_only_once_is_none(desk: Desk, alpaca: Alpaca, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of positions that lags behind the list of fills."""
    order = submit(desk, alpaca)
    before = desk.broker.state()
    alpaca.fill(order, 10, 100)
    answers, ask = [before.positions], desk.broker.state

    def state() -> BrokerState:
        found = ask()
        return found.model_copy(update={"positions": answers.pop()}) if answers else found

    monkeypatch.setattr(desk.broker, "state", state)
    assert compare(desk).agreed
    assert (answers, trading(desk)[0]) == ([], TradingState.ACTIVE)


def test_a_broker_that_does_not_answer_is_an_error_and_writes_nothing(
    desk: Desk, alpaca: Alpaca, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent() -> BrokerState:
        raise BrokerSilent("no answer")

    monkeypatch.setattr(desk.broker, "state", silent)
    with pytest.raises(BrokerSilent):
        compare(desk)
    with desk.store.read() as session:
        assert session.exec(select(Reconciliation)).all() == []


def test_the_paper_books_are_checked_against_the_fills(new_desk: NewDesk) -> None:
    desk = new_desk()
    desk.run(action())
    assert compare(desk).agreed
    with desk.store.session() as session:
        session.execute(update(Account).values(cash=1.0))
    found = compare(desk)
    assert (found.agreed, kinds(found), desk.cash()) == (True, ["cash"], 99_000)
    with desk.store.session() as session:
        session.execute(update(Position).values(quantity=11.0))
    found = compare(desk)
    assert (found.agreed, kinds(found), trading(desk)[0]) == (False, ["position"], TradingState.HALTED)
    assert compare(desk, adopt=True).agreed
    assert desk.positions() == {"AAA": 10}


def test_option_events_from_before_a_takeover_are_in_it_already(desk: Desk, alpaca: Alpaca) -> None:
    day = dt.datetime.now(dt.UTC).date().isoformat()
    row = {"id": "1::1", "activity_type": "OPTRD", "date": day, "symbol": "AAA", "qty": "100", "price": "90"}
    alpaca.activities.append({**row, "status": "executed"})
    alpaca.positions = {"AAA": (Decimal(60), Decimal(90))}  # forty of them were sold since
    assert (kinds(compare(desk)), desk.positions()) == (["position"], {})
    assert compare(desk, adopt=True).agreed
    assert (compare(desk).differences, desk.positions()) == ([], {"AAA": 60})
