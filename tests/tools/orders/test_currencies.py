"""An account in one currency that trades shares which are priced in another."""

from __future__ import annotations

import datetime as dt
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console
from sqlmodel import select

from chordesk.models.errors import OrderError
from chordesk.models.market import Listing
from chordesk.models.orders import AccountView, BrokerAnswer, BrokerFill, BrokerState, DenialCode, OrderTicket
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Account, EquityMark, Order, Position, Preview
from chordesk.tasks.cli.show.order_display import order_list, order_report
from chordesk.tasks.reading.accounts import equity_now
from chordesk.tasks.reading.order_history import list_orders, order_detail
from chordesk.tools.decimals import exact
from chordesk.tools.orders.flow import maintain_orders
from chordesk.tools.orders.reconciliation import reconcile
from tests.tools.orders.abroad import PlacesClock, TapeAbroad
from tests.tools.orders.desk import Desk, action, denied
from tests.tools.orders.tape import Tape

NewDesk = Callable[..., Desk]
LONG_AGO = dt.timedelta(days=6)


def _toronto(**changes: object) -> TapeAbroad:
    market = TapeAbroad({"SHOP.TO": 100.0, "AAA": 50.0}, rates={"CADUSD": (0.75, None)})
    return replace(market, **changes)


def _in_trinidad_dollars() -> TapeAbroad:
    """Of which no other source than the tape has a rate."""
    listed = {"SHOP.TO": Listing(symbol="SHOP.TO", currency="TTD")}
    return _toronto(rates={"TTDUSD": (0.75, None)}, listings=listed)


def test_an_order_abroad_is_counted_in_the_accounts_currency(new_desk: NewDesk) -> None:
    desk = new_desk(_toronto(), commission_per_share=0.01)
    (bought,) = desk.run(action("SHOP.TO", quantity=None, notional=1_000))
    assert (bought.state, bought.quantity) == (OrderState.FILLED, 13)  # 1,000 dollars are 1,333.33 there
    assert (bought.price, bought.notional) == (100.0, 975.0)
    (fill,) = bought.fills
    assert (fill.price, fill.currency, fill.rate, fill.rate_source) == (100.0, "CAD", 0.75, "tape")
    assert exact(desk.cash()) == 100_000 - 975 - exact(0.13)
    with desk.store.read() as session:
        held = session.get_one(Position, ("paper", "SHOP.TO"))
        assert (held.average_cost, held.currency, held.cost_base) == (100.0, "CAD", 75.0)
        payload = json.loads(session.exec(select(Preview.payload)).one())
        assert [payload[name] for name in ("currency", "rate", "notional")] == ["CAD", "0.75", "975"]
        assert session.get_one(Account, "paper").currency == "USD"
    maintain_orders(desk.context())
    with desk.store.read() as session:
        (mark,) = session.exec(select(EquityMark)).all()
        assert mark.rates is not None
        assert mark.rates["CAD"][::2] == [0.75, "tape"]
        assert exact(mark.last) == 100_000 - exact(0.13)


def test_a_limit_of_money_holds_at_the_rate(new_desk: NewDesk) -> None:
    desk = new_desk(_toronto(), max_order_notional=975)
    assert desk.run(action("SHOP.TO", quantity=13))[0].state == OrderState.FILLED
    dearer = new_desk(_toronto(rates={"CADUSD": (0.7501, None)}), max_order_notional=975)
    reason = denied(dearer.run(action("SHOP.TO", quantity=13))[0], DenialCode.NOTIONAL_PER_ORDER)
    assert "13 SHOP.TO at CAD 100.00" in reason


def test_a_rate_that_is_too_old_opens_nothing_and_lets_what_is_held_go(new_desk: NewDesk) -> None:
    market = _in_trinidad_dollars()
    desk = new_desk(market)
    desk.run(action("SHOP.TO", quantity=4))
    old = market.clock.now() - LONG_AGO
    market.rates["TTDUSD"] = (0.7, old)
    more, other = desk.run(action("SHOP.TO", "add", quantity=1), action("AAA", quantity=1))
    for order in (more, other):  # that of dollars too: what the account is worth is not known
        reason = denied(order, DenialCode.FX_UNKNOWN)
        assert "no rate of TTDUSD is known" in reason
        assert f"{old:%Y-%m-%d}" in reason
        assert "fx.csv" in reason
    (sold,) = desk.run(action("SHOP.TO", "close", quantity=4))
    assert sold.state == OrderState.FILLED
    assert sold.fills[0].rate == 0.7
    market = _in_trinidad_dollars()
    desk = new_desk(market)
    desk.run(action("SHOP.TO", quantity=4))
    market.rates.clear()
    (sold,) = desk.run(action("SHOP.TO", "close", quantity=4))
    assert (sold.fills[0].rate, sold.fills[0].rate_source) == (0.75, "cost of the position")


def test_an_account_in_euros_trades_dollars(new_desk: NewDesk) -> None:
    market = TapeAbroad({"AAA": 50.0}, rates={"USDEUR": (0.9, None)})
    desk = new_desk(market, currency="EUR")
    (bought,) = desk.run(action("AAA", quantity=10))
    assert (bought.notional, bought.fills[0].currency, desk.cash()) == (450.0, "USD", 100_000 - 450)


def test_an_order_of_the_day_waits_for_its_own_exchange(new_desk: NewDesk) -> None:
    closed = PlacesClock(closed=frozenset({"XTSE"}))
    desk = new_desk(_toronto(clock=closed))
    here, there = desk.run(action("AAA", quantity=1), action("SHOP.TO", quantity=1))
    assert here.state == OrderState.FILLED
    assert "Toronto" in denied(there, DenialCode.MARKET_CLOSED)


def test_a_desk_in_dollars_has_no_words_of_rates(new_desk: NewDesk) -> None:
    desk = new_desk(Tape({"AAA": 50.0}))
    (bought,) = desk.run(action("AAA", quantity=1))
    fill = bought.fills[0]
    assert (fill.currency, fill.rate, fill.rate_at, fill.rate_source, fill.duties) == (None,) * 5
    with desk.store.read() as session:
        assert not {"currency", "rate", "duties"} & json.loads(session.exec(select(Preview.payload)).one()).keys()


def test_duties_are_paid_beside_the_commission_at_the_rate(new_desk: NewDesk) -> None:
    desk = new_desk(TapeAbroad({"RELIANCE.NS": 1_000.0}, rates={"INRUSD": (0.0125, None)}))
    (bought,) = desk.run(action("RELIANCE.NS", quantity=100))
    paid = [["STT", 1.25], ["stamp duty", 0.19]]  # of 1,250 dollars; the SEBI fee is less than half a cent
    assert bought.fills[0].duties == paid
    with desk.store.read() as session:
        preview = session.exec(select(Preview)).one()
        assert preview.duties == paid
        assert json.loads(preview.payload)["duties"] == [["STT", "1.25"], ["stamp duty", "0.19"]]
    assert exact(desk.cash()) == exact(100_000 - 1_250 - 1.44)
    (sold,) = desk.run(action("RELIANCE.NS", "close", quantity=100))
    assert sold.fills[0].duties == [["STT", 1.25]]
    assert exact(desk.cash()) == exact(100_000 - 1.44 - 1.25)
    short = new_desk(desk.market, starting_cash=1_251, max_symbol_share=1)
    reason = denied(short.run(action("RELIANCE.NS", quantity=100))[0], DenialCode.BUYING_POWER)
    assert "may need more than the cash" in reason


class _Far:
    """A broker that fills what it is sent at once, in the currency of the listing, and does not say the rate."""

    name, real_money = "paper", False

    def __init__(self, currency: str = "USD") -> None:
        self.currency = currency

    def submit(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
        at = dt.datetime(2010, 8, 12, 20, tzinfo=dt.UTC)
        fill = BrokerFill(quantity=ticket.quantity, price=100.0, commission=1.0, at=at, currency="CAD")
        return BrokerAnswer(status="filled", broker_order_id="1", fills=[fill])

    def lookup(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> None:
        return None

    def cancel(self, ticket: OrderTicket) -> None:
        return None

    def state(self) -> BrokerState:
        figures = {"cash": 50_000.0, "equity": None, "positions": [], "open_orders": [], "fills": []}
        return BrokerState.model_validate({"account": self.name, "currency": self.currency, **figures})


def test_a_fill_without_a_rate_is_booked_at_that_of_its_preview(new_desk: NewDesk) -> None:
    desk = new_desk(_toronto())
    desk.broker = _Far()
    (bought,) = desk.run(action("SHOP.TO", quantity=4))
    (fill,) = bought.fills
    assert (fill.currency, fill.rate, fill.rate_source) == ("CAD", 0.75, "tape")
    assert exact(desk.cash()) == 50_000 - 300 - 1  # of the broker's own cash, as it was compared before


def test_an_account_is_kept_in_the_currency_of_its_broker(new_desk: NewDesk) -> None:
    desk = new_desk(_toronto())
    far = _Far("EUR")
    reconcile(desk.store, desk.settings, far, "a test")
    with desk.store.read() as session:
        assert (session.get_one(Account, "paper").currency, session.get_one(Account, "paper").cash) == ("EUR", 50_000)
    desk.hold("AAA", 1)
    far.currency = "CHF"
    with pytest.raises(OrderError, match="keeps account paper in CHF, and its books are in EUR"):
        reconcile(desk.store, desk.settings, far, "a test")


def test_what_a_person_reads_of_an_account_states_its_currency(new_desk: NewDesk) -> None:
    """No amount is without one but in dollars, and none of them is in these texts."""
    desk = new_desk(_toronto(), currency="CAD", commission_per_share=0.01, max_symbol_notional=5_000)
    terms = {"orderType": "limit", "limitPrice": 101.0}
    bought, refused = desk.run(action("SHOP.TO", quantity=10, **terms), action("SHOP.TO", quantity=45, **terms))
    assert (bought.state, refused.limit_text) == (OrderState.FILLED, "at most CAD 5,000.00")
    assert refused.measured is not None
    assert refused.measured.startswith("exposure CAD 5,")
    maintain_orders(desk.context())
    screen = Console(file=io.StringIO(), width=160)
    with desk.store.read() as session:
        screen.print(order_report(order_detail(session, session.get_one(Order, bought.id)), 0))
        screen.print(order_list(list_orders(session, None, None, None, 10), {"paper": "CAD"}))
        equity = equity_now(session, "paper", dt.date(2010, 8, 12))
        assert equity is not None
        assert equity.currency == "CAD"
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    for stated in ("limit order at CAD 101.00", "preview CAD 1,0", "at CAD 100.00, commission CAD 0.10", "CAD 1,0"):
        assert stated in text, text
    assert not re.findall(r"(?<!CAD )(?<![\d,.])\d[\d,]*\.\d\d\b", text), text
