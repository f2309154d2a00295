"""What TWS does to orders that no other broker does, and what becomes of them here: none lost, none doubled."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from chordesk.models.errors import DeskError, SettingError
from chordesk.models.orders import OrderTicket
from chordesk.testing.broker import Line, Updates, ticket_at
from tests.fakes.tws import ACCOUNT
from tests.patience import PATIENCE


def ref(ticket: OrderTicket) -> str:
    return str(ticket.order_id)


# Sends


def test_an_order_in_the_queue_of_a_gateway_that_is_cut_is_not_there(far: Any, line: Line) -> None:
    ticket = ticket_at(far)
    far.limit(0.5)
    far.tws.faults.append("queued")
    assert line.sent(ticket) is None
    far.tws.cut()
    assert line.find(ticket) is None
    far.tws.arrive()
    assert (far.tws.sends, far.tws.orders) == ([ref(ticket)], [])


def test_a_gateway_that_logs_out_within_a_send_says_nothing_of_it(far: Any, line: Line) -> None:
    ticket = ticket_at(far)
    far.tws.faults.append("logout")
    for call in (line.send, line.ask, line.cancel):
        with pytest.raises(DeskError, match="no IB Gateway answers"):
            call(ticket)
    far.tws.login()
    assert line.ask(ticket).status == "submitted"
    assert far.tws.sends == [ref(ticket)]


def test_without_a_link_to_ibkr_nothing_is_sent_and_nothing_is_missing(far: Any, line: Line) -> None:
    first, second = ticket_at(far), ticket_at(far)
    line.send(first)
    far.tws.link(1100)
    for call in (lambda: line.send(second), lambda: line.ask(first), lambda: line.find(second), line.broker.state):
        with pytest.raises(DeskError, match="no link to IBKR"):
            call()
    far.tws.link(1102)
    assert line.find(second) is None
    assert line.send(second).status == "submitted"
    assert far.tws.sends == [ref(first), ref(second)]


def test_numbers_that_are_given_again_move_no_other_order(far: Any, line: Line) -> None:
    first, second = ticket_at(far, "limit"), ticket_at(far, "limit", symbol=far.symbols[1])
    line.send(first)
    far.tws.restart()
    assert line.send(second).status == "submitted"
    assert far.tws.order(ref(first)).order_id != far.tws.order(ref(second)).order_id
    answer = line.cancel(second)
    assert answer is not None
    assert (answer.status, line.ask(first).status) == ("cancelled", "submitted")


def test_an_error_by_the_number_of_a_new_order_does_not_reject_it(far: Any, line: Line) -> None:
    ticket = ticket_at(far)
    far.tws.faults.append("blamed")
    answer = line.send(ticket)
    assert (answer.status, answer.broker_order_id) == ("submitted", str(far.tws.order(ref(ticket)).perm_id))


def test_a_note_is_no_rejection(far: Any, line: Line) -> None:
    far.tws.faults.append("warned")
    assert line.send(ticket_at(far)).status == "submitted"


def test_an_order_that_is_refused_and_kept_is_cancelled_there(far: Any, line: Line) -> None:
    ticket = ticket_at(far)
    far.tws.faults.append("inactive")
    answer = line.send(ticket)
    assert (answer.status, "201" in (answer.message or "")) == ("rejected", True)
    assert far.tws.order(ref(ticket)).status == "Cancelled"
    assert line.broker.state().open_orders == []


def test_an_order_that_turns_inactive_may_be_sent_on_and_is_cancelled_by_its_reference(far: Any, line: Line) -> None:
    ticket = ticket_at(far, "stop", "gtc")
    line.send(ticket)
    far.tws.end(ref(ticket), "inactive")
    answer = line.ask(ticket)
    assert (answer.status, "inactive" in (answer.message or "")) == ("submitted", True)
    assert [row.client_id for row in line.broker.state().open_orders] == [ref(ticket)]
    assert line.cancel(ticket).status == "cancelled"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"quantity": 1.5}, "whole shares"),
        ({"symbol": "ZZZZ"}, "no share ZZZZ"),
        ({"order_type": "limit", "limit_price": 90.005}, "no multiple of 0.01"),
        ({"symbol": "IBM"}, "2 shares at IBKR"),
        ({"symbol": "SAP.DE"}, "is in EUR, and the account is kept in USD"),
        ({"symbol": "005930.KS"}, "where this broker takes no orders"),
        ({"symbol": "BTC-USD"}, "where this broker takes no orders"),
    ],
)
def test_what_cannot_be_ordered_is_rejected_before_the_send(
    far: Any, line: Line, changes: dict[str, Any], why: str
) -> None:
    far.tws.listings["IBM"] = 2
    answer = line.send(ticket_at(far, **changes))
    assert (answer.status, why in (answer.message or "")) == ("rejected", True), answer.message
    assert far.tws.sends == []


def test_an_account_in_euros_trades_shares_in_euros_and_says_so(far: Any, line: Line) -> None:
    far.tws.base, far.tws.fee_currency, far.tws.cash = "EUR", "EUR", {"EUR": Decimal(5000)}
    ticket = ticket_at(far, symbol="SAP.DE")
    assert line.send(ticket).status == "submitted"
    far.fill(ref(ticket), 10, 90.0)
    assert line.ask(ticket).status == "filled"
    state = Line(far, far.connect()).broker.state()
    assert (state.currency, state.cash, state.blocked) == ("EUR", 4099.65, None)
    assert [(row.symbol, row.quantity, row.currency) for row in state.positions] == [("SAP.DE", 10, None)]
    assert [row.symbol for row in state.fills] == ["SAP.DE"]
    answer = line.send(ticket_at(far))
    assert (answer.status, answer.message) == ("rejected", "AAPL is in USD, and the account is kept in EUR")


@pytest.mark.parametrize(
    ("symbol", "there", "money", "primary"),
    [
        ("AAPL", "AAPL", "USD", ""), ("BRK.B", "BRK B", "USD", ""), ("SAP.DE", "SAP", "EUR", "IBIS"),
        ("0700.HK", "700", "HKD", "SEHK"), ("VOLV-B.ST", "VOLV.B", "SEK", "SFB"), ("AZN.L", "AZN", "GBP", "LSE"),
    ],
)  # fmt: skip
def test_a_symbol_is_the_same_share_here_and_there(symbol: str, there: str, money: str, primary: str) -> None:
    shares = pytest.importorskip("chordesk.tools.ibkr.shares")
    asked = shares.wanted(symbol, money)
    assert (asked.symbol, asked.currency, asked.primaryExchange) == (there, money, primary)
    assert shares.symbol_here(asked) == symbol


@pytest.mark.parametrize(
    ("figures", "money"),
    [
        ({("NetLiquidation", "CHF"): "9", ("CashBalance", "USD"): "9"}, "CHF"),
        ({("ExchangeRate", "EUR"): "1.00", ("ExchangeRate", "USD"): "0.9", ("CashBalance", "USD"): "9"}, "EUR"),
        ({("CashBalance", "BASE"): "9", ("CashBalance", "GBP"): "9"}, "GBP"),
        ({("CashBalance", "EUR"): "9", ("CashBalance", "USD"): "9"}, "USD"),
    ],
)
def test_the_currency_of_an_account_is_its_own(figures: dict[tuple[str, str], str], money: str) -> None:
    assert pytest.importorskip("chordesk.tools.ibkr.shares").money_of(figures) == money


# Look-up


@pytest.mark.parametrize("kind", [5, 101, 11])
def test_a_list_that_cannot_be_read_is_not_a_list_without_the_order(far: Any, line: Line, kind: int) -> None:
    ticket = ticket_at(far)
    line.send(ticket)
    far.fill(ref(ticket), 10 if kind == 101 else 4, far.price)
    far.tws.torn = kind
    with pytest.raises(DeskError, match="could not be read"):
        Line(far, far.connect()).find(ticket)


def test_answers_that_come_twice_are_one_answer(far: Any) -> None:
    far.tws.doubled = True
    line = Line(far, far.connect())
    partly, whole, never = ticket_at(far), ticket_at(far, symbol=far.symbols[1]), ticket_at(far)
    for ticket, quantity in ((partly, 4), (whole, 10)):
        line.send(ticket)
        far.fill(ref(ticket), quantity, far.price)
    assert [line.ask(each).status for each in (partly, whole)] == ["partially_filled", "filled"]
    assert line.find(never) is None
    state = line.broker.state()
    assert {row.symbol: row.quantity for row in state.positions} == {far.symbols[0]: 4, far.symbols[1]: 10}
    assert len(state.fills) == 2
    assert line.cancel(partly).status == "cancelled"  # type: ignore[union-attr]


def test_an_order_of_days_has_all_its_fills_though_the_gateway_lists_those_of_today(far: Any, line: Line) -> None:
    ticket = ticket_at(far, "limit", "gtc")
    line.send(ticket)
    far.fill(ref(ticket), 4, 90.0)
    first = line.ask(ticket).fills
    far.tws.new_day()
    again = Line(far, far.connect())
    assert again.ask(ticket).fills == first
    far.fill(ref(ticket), 6, 89.5)
    answer = again.ask(ticket)
    assert (answer.status, answer.fills[:1], len(answer.fills)) == ("filled", first, 2)
    far.tws.new_day()
    assert Line(far, far.connect()).ask(ticket) == answer


def test_an_order_of_an_earlier_day_that_is_not_open_is_over_with_the_fills_that_were_told(
    far: Any, line: Line
) -> None:
    """Without an end, no comparison with the account would come to its own."""
    old = ticket_at(far, "limit", "gtc", placed_at=dt.datetime.now(dt.UTC) - dt.timedelta(days=2))
    line.send(old)
    far.fill(ref(old), 4, 90.0)
    fills = line.ask(old).fills
    far.tws.new_day()
    assert line.ask(old).status == "partially_filled"
    far.tws.end(ref(old), "cancelled")
    far.tws.new_day()
    for call in (line.find, line.cancel):
        answer = call(old)
        assert answer is not None
        assert (answer.status, answer.fills) == ("expired", fills)
    assert line.find(ticket_at(far)) is None


def test_an_end_without_its_fills_is_not_told(far: Any, line: Line) -> None:
    ticket = ticket_at(far)
    line.send(ticket)
    far.fill(ref(ticket), 10, far.price)
    far.tws.forgets_executions = True
    answer = Line(far, far.connect()).ask(ticket)
    assert (answer.status, answer.fills) == ("submitted", [])
    assert "its list of fills has 0 of 10" in (answer.message or "")
    far.tws.forgets_executions = False
    assert line.ask(ticket).status == "filled"


def test_a_corrected_fill_and_two_orders_of_one_reference_are_shown(far: Any, line: Line) -> None:
    corrected, twice = ticket_at(far), ticket_at(far, symbol=far.symbols[1])
    line.send(corrected)
    far.fill(ref(corrected), 10, far.price)
    far.tws.correct(ref(corrected), Decimal(99))
    with pytest.raises(DeskError, match="corrected the fill"):
        line.ask(corrected)
    line.send(twice)
    far.tws.repeat(ref(twice))
    with pytest.raises(DeskError, match="has 2 orders as"):
        line.ask(twice)


def test_another_account_of_the_login_is_nobodys_business(far: Any) -> None:
    far.tws.accounts.append("DU1111111")
    ticket = ticket_at(far)
    line = Line(far, far.connect())
    line.send(ticket)
    far.tws.by_hand("IBM", account="DU1111111")
    state = line.broker.state()
    assert [row.client_id for row in state.open_orders] == [ref(ticket)]
    assert state.positions == []
    stolen = ticket_at(far, symbol="IBM", quantity=1.0, order_type="limit", limit_price=50.0)
    far.tws.by_hand("IBM", ref=ref(stolen), account="DU1111111")
    with pytest.raises(DeskError, match="account differ"):
        line.find(stolen)


def test_an_order_of_another_number_is_not_cancelled_by_ours(far: Any, line: Line) -> None:
    ticket = ticket_at(far, "limit")
    line.send(ticket)
    far.tws.order(ref(ticket)).client_id = 7
    with pytest.raises(DeskError, match="DESK_IBKR_CLIENT_ID=7"):
        line.cancel(ticket)


# The account and the connection


def test_what_the_desk_cannot_count_blocks_the_account(far: Any, line: Line) -> None:
    far.tws.cash["EUR"] = Decimal("12.5")
    assert "cash 12.5 in EUR" in (line.broker.state().blocked or "")
    far.tws.cash["EUR"] = Decimal(0)
    far.hold("IBM", 5, 100)
    far.tws.shares["IBM"].currency, far.tws.shares["IBM"].primary = "GBP", "LSE"
    assert "IBM.L in GBP" in (line.broker.state().blocked or "")


def test_a_commission_in_other_money_than_the_price_is_not_booked(far: Any, line: Line) -> None:
    far.tws.fee_currency = "EUR"
    ticket = ticket_at(far)
    line.send(ticket)
    far.fill(ref(ticket), 10, far.price)
    with pytest.raises(DeskError, match="is in EUR, and its price in USD"):
        line.ask(ticket)


@pytest.mark.parametrize(
    ("accounts", "name", "why"),
    [
        (["DU1111111", "DU2222222"], "ibkr-paper", "serves 2 accounts, and none that IBKR_ACCOUNT names"),
        ([ACCOUNT], "ibkr-live", "serves a paper account"),
        (["U7654321"], "ibkr-paper", "serves a live account"),
    ],
)
def test_an_account_of_another_kind_is_refused_without_its_number(
    far: Any, accounts: list[str], name: str, why: str
) -> None:
    far.tws.accounts = accounts
    wanted = ACCOUNT if name == "ibkr-live" or len(accounts) > 1 else accounts[0]
    broker = far.connect(keys={"IBKR_ACCOUNT": wanted}, name=name)
    with pytest.raises(SettingError, match=why) as refused:
        broker.state()
    assert not [each for each in (*accounts, wanted) if each in f"{refused.value} {refused.value.remedy}"]
    far.all_gone()


def test_a_number_in_use_is_named_with_the_remedy(far: Any) -> None:
    other, ours = far.connect(home="elsewhere"), far.connect()
    other.state()
    far.limit(1.2)
    for _ in range(2):
        began = len(far.tws.requests)
        with pytest.raises(DeskError, match="has the client number 1 in use") as refused:
            ours.state()
    assert "DESK_IBKR_CLIENT_ID" in refused.value.remedy
    assert len(far.tws.requests) == began, "a halt asks for each order, and waits once"


def test_a_read_only_gateway_takes_no_order_and_says_why(far: Any, line: Line) -> None:
    far.tws.read_only = True
    with pytest.raises(DeskError, match="Read-Only"):
        line.send(ticket_at(far))
    assert far.tws.sends == []


def test_a_stream_that_was_cut_tells_again(far: Any, line: Line) -> None:
    updates = Updates()
    line.broker.listen(updates)  # type: ignore[attr-defined]
    ticket = ticket_at(far, quantity=1000.0)
    line.send(ticket)
    far.tws.cut()
    updates.came.clear()
    far.again(0.1)
    for _ in range(200):
        far.fill(ref(ticket), 1, far.price)
        if updates.came.wait(PATIENCE / 200):
            break
    assert ref(ticket) in updates.ids
