"""The paper broker's times in force and stops, against bars."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from chordesk.models.market import Quote
from chordesk.models.orders import AccountView, BrokerAnswer, HeldPosition, OrderTicket
from chordesk.models.tables.orders import Preview
from chordesk.tools.brokers.paper import PaperBroker
from chordesk.tools.brokers.paper_matching import Session, matches
from chordesk.tools.decimals import exact
from tests.tools.brokers.sessions import DAYS, FLAT, Figures, Sessions, sessions
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.tape import NEW_YORK

NewDesk = Callable[..., Desk]
Ask = Callable[..., BrokerAnswer]
OPENS = dt.time(9, 30)


@pytest.fixture
def ask(new_desk: NewDesk) -> Ask:
    """Asks a broker of its own about an order placed at 15:55 of the first day, on another day if named."""

    def asked(
        market: Sessions, day: dt.date = DAYS[0], bps: float = 0, at_open: bool = False, **changes: Any
    ) -> BrokerAnswer:
        placed = dt.datetime.combine(DAYS[0], dt.time(15, 55), NEW_YORK)
        base = {
            "order_id": uuid.UUID(int=7), "account": "paper", "symbol": "AAA", "action": "close", "side": "sell",
            "quantity": 10, "placed_at": placed, "order_type": "market", "time_in_force": "gtc",
        }  # fmt: skip
        ticket = OrderTicket.model_validate({**base, **changes})
        held = [HeldPosition(symbol="AAA", quantity=10, average_cost=100)] if ticket.side == "sell" else []
        account = AccountView(account="paper", cash=1e6, equity=None, positions=held)
        preview = Preview(order_id="x", payload="", payload_hash="", price=100, priced_at=placed, notional=1)
        broker = new_desk(market, slippage_bps=bps).broker
        assert isinstance(broker, PaperBroker)
        market.go(day)
        broker = broker.on(market, at_open=at_open)
        answer = broker.lookup(ticket, preview, account)
        assert answer is not None
        return answer

    return asked


def prices(answer: BrokerAnswer) -> list[tuple[float, dt.datetime]]:
    return [(fill.price, fill.at) for fill in answer.fills]


def at(day: dt.date, time: dt.time) -> dt.datetime:
    return dt.datetime.combine(day, time, NEW_YORK)


STOP = {"order_type": "stop", "stop_price": 92.0}


def test_a_stop_fills_at_its_price_where_the_session_reaches_it(ask: Ask) -> None:
    market = sessions((100, 101, 95, 96), (95, 96, 91, 94), (94, 95, 93, 94))
    assert ask(market, DAYS[1], **STOP).status == "submitted"
    assert prices(ask(market, DAYS[2], **STOP)) == [(92.0, at(DAYS[2], dt.time(15, 55)))]
    assert prices(ask(market, DAYS[3], **STOP)) == [(92.0, at(DAYS[2], dt.time(15, 55)))]


def test_a_gap_through_the_stop_fills_at_the_open(ask: Ask) -> None:
    market = sessions((100, 101, 95, 96), (88, 99, 87, 98))
    answer = ask(market, DAYS[2], **STOP)
    assert (answer.status, prices(answer)) == ("filled", [(88.0, at(DAYS[2], OPENS))])
    assert prices(ask(market, DAYS[2], bps=100, **STOP)) == [(87.12, at(DAYS[2], OPENS))]


def test_a_stop_to_buy_mirrors_one_to_sell(ask: Ask) -> None:
    market = sessions((100, 104, 99, 103), (109, 110, 108, 109))
    stop = {"order_type": "stop", "side": "buy", "action": "open"}
    assert prices(ask(market, DAYS[2], stop_price=103.5, **stop))[0][0] == 103.5
    assert prices(ask(market, DAYS[2], stop_price=105.0, **stop))[0][0] == 109.0
    assert ask(market, DAYS[2], stop_price=110.5, **stop).fills == []


def test_no_session_before_or_at_the_placing_counts(ask: Ask) -> None:
    """The first day's own low is below the stop: that was over when the order was placed."""
    market = sessions((100, 101, 99, 100))
    market.rows["AAA"][0] = (100.0, 100.0, 80.0, 100.0)
    assert ask(market, DAYS[0], **STOP).status == "submitted"
    assert ask(market, DAYS[1], **STOP).status == "submitted"


def test_an_order_sees_no_session_later_than_its_markets_now(ask: Ask) -> None:
    market = sessions((50, 50, 50, 50))
    assert ask(market, DAYS[0], **STOP).status == "submitted"
    assert ask(market, DAYS[0], order_type="limit", limit_price=40.0).status == "submitted"
    assert ask(market, DAYS[0], time_in_force="cls").status == "submitted"


@pytest.mark.parametrize(
    ("rows", "limit", "price"),
    [
        ([(95, 96, 91, 91.5)], 91.0, 92.0),  # reached within the session, and the stop is above the limit
        ([(90, 90.5, 88, 89)], 91.0, None),  # the gap is beyond the limit, and the day does not come back
        ([(90, 91.5, 88, 89)], 91.0, 91.0),  # it comes back
        ([(90, 90.5, 88, 89), (90, 93, 90, 92)], 91.0, 91.0),  # the next day does
        ([(90, 90.5, 88, 89), (94, 95, 94, 94)], 91.0, 94.0),  # and opens above it
        ([(95, 96, 91, 91.5)], 93.0, None),  # a limit above the stop: what came after the stop is not known
        ([(95, 96, 91, 94)], 93.0, 93.0),  # but the close is
    ],
)
def test_a_stop_limit_may_stay_unfilled(ask: Ask, rows: list[Figures], limit: float, price: float | None) -> None:
    answer = ask(sessions(*rows), DAYS[len(rows)], order_type="stop_limit", stop_price=92.0, limit_price=limit)
    assert [found for found, _ in prices(answer)] == ([] if price is None else [price])
    assert answer.status == ("submitted" if price is None else "filled")


TRAIL = {"order_type": "trailing_stop", "trail_percent": 5.0}


def test_a_trailing_stop_follows_the_highest_high_of_the_sessions_before(ask: Ask) -> None:
    market = sessions((101, 110, 100, 108), (108, 109, 105, 106), (106, 106, 104, 105), (105, 106, 90, 91))
    assert ask(market, DAYS[1], **TRAIL).fills == []  # its stop is 95 for the day that makes 110
    assert ask(market, DAYS[2], **TRAIL).fills == []  # 104.5 from here on
    assert prices(ask(market, DAYS[3], **TRAIL))[0][0] == 104.5


def test_a_trailing_stop_never_falls_back_and_gaps_as_any_stop(ask: Ask) -> None:
    market = sessions((101, 110, 100, 108), (100, 101, 99, 100))
    assert prices(ask(market, DAYS[2], **TRAIL)) == [(100.0, at(DAYS[2], OPENS))]
    started = {**TRAIL, "stop_price": 97.0}
    assert prices(ask(sessions((99, 99.5, 96, 97)), DAYS[1], **started))[0][0] == 97.0


@pytest.mark.parametrize(("tif", "state"), [("day", "expired"), ("gtc", "submitted"), ("ioc", "cancelled")])
def test_a_limit_that_is_not_met_ends_as_its_time_in_force_has_it(ask: Ask, tif: str, state: str) -> None:
    market = sessions((100, 101, 99, 100), (103, 106, 102, 104))
    limit = {"order_type": "limit", "limit_price": 105.0, "time_in_force": tif}
    assert ask(market, **limit).status == "submitted"
    assert ask(market, DAYS[1], **limit).status == state
    later = ask(market, DAYS[2], **limit)
    assert (later.status, [price for price, _ in prices(later)]) == (
        ("filled", [105.0]) if tif == "gtc" else (state, [])
    )


@pytest.mark.parametrize(
    ("side", "limit", "low", "high", "price"),
    [
        ("buy", None, 99.0, 101.02, 101.02),
        ("buy", None, 99.0, 101.06, 101.0505),
        ("sell", None, 100.98, 103.0, 100.98),
        ("sell", None, 100.9, 103.0, 100.9495),
        ("buy", 101.03, 99.0, 101.02, 101.02),
        ("buy", 101.01, 99.0, 101.02, None),
    ],
)
def test_a_day_order_fills_at_the_next_open_within_its_session_s_range(
    ask: Ask, side: str, limit: float | None, low: float, high: float, price: float | None
) -> None:
    market = sessions((101.0, high, low, 101.0), FLAT)
    terms = {"limit_price": limit, "order_type": "limit"} if limit is not None else {}
    order = {"side": side, "action": "open" if side == "buy" else "close", "time_in_force": "day", **terms}
    assert ask(market, bps=5, **order).status == "submitted"
    for day, begins in ((DAYS[1], True), (DAYS[1], False), (DAYS[2], False)):
        expected = [] if price is None else [(price, at(DAYS[1], OPENS))]
        assert prices(ask(market, day, bps=5, at_open=begins, **order)) == expected


def test_a_resting_limit_fills_at_a_better_open(ask: Ask) -> None:
    market = sessions((107, 108, 106, 107))
    assert prices(ask(market, DAYS[1], order_type="limit", limit_price=105.0)) == [(107.0, at(DAYS[1], OPENS))]


@pytest.mark.parametrize(("limit", "status"), [(None, "filled"), (104.0, "filled"), (104.01, "expired")])
def test_an_order_for_the_close_takes_the_next_close_alone(ask: Ask, limit: float | None, status: str) -> None:
    """At 15:55 the day's own auction takes nothing any more."""
    market = sessions((103, 110, 102, 104), (120, 120, 120, 120))
    terms = {"order_type": "limit", "limit_price": limit} if limit else {}
    for day in DAYS[1:3]:
        answer = ask(market, day, time_in_force="cls", **terms)
        assert (answer.status, [price for price, _ in prices(answer)]) == (status, [104.0] if answer.fills else [])
    assert ask(market, DAYS[0], time_in_force="cls", **terms).status == "submitted"


@pytest.mark.parametrize(("limit", "status"), [(None, "filled"), (103.0, "filled"), (103.01, "expired")])
def test_an_order_for_the_open_takes_the_next_open_alone(ask: Ask, limit: float | None, status: str) -> None:
    market = sessions((103, 110, 102, 104), (120, 120, 120, 120))
    terms = {"order_type": "limit", "limit_price": limit} if limit else {}
    assert ask(market, time_in_force="opg", **terms).status == "submitted"
    answer = ask(market, DAYS[1], time_in_force="opg", **terms)
    assert (answer.status, [price for price, _ in prices(answer)]) == (status, [103.0] if answer.fills else [])


def test_a_quantity_that_a_session_cannot_take_is_left_to_the_next(ask: Ask) -> None:
    market = sessions((95, 96, 91, 94), (90, 91, 89, 90), volume=60)
    answer = ask(market, DAYS[2], **STOP)
    assert [(fill.price, fill.quantity) for fill in answer.fills] == [(92.0, 6), (90.0, 4)]
    assert ask(market, DAYS[1], **STOP).status == "partially_filled"
    day = ask(sessions(FLAT, volume=60), DAYS[1], time_in_force="ioc")
    assert (day.status, [fill.quantity for fill in day.fills]) == ("cancelled", [6])


def test_after_a_fill_of_a_later_session_no_order_of_a_day_before_it_is_cleared(new_desk: NewDesk) -> None:
    market = sessions((100, 101, 98, 99), (97, 98, 91, 93), FLAT)
    desk = new_desk(market)
    desk.run(action())
    market.go(DAYS[2])
    desk.run(action(kind="hold"))
    market.go(DAYS[0])
    (early,) = desk.run(action())
    assert (early.denied.code, early.denied.limit) == ("market_closed", f"{DAYS[1]} or later")


def test_the_first_price_that_meets_an_order_is_the_one_it_fills_at() -> None:
    """A session of one price is a quote: there is no other price in it."""
    ticket = OrderTicket(
        order_id=uuid.UUID(int=1), account="paper", symbol="AAA", action="open", side="buy", quantity=1,
        placed_at=at(DAYS[0], OPENS), order_type="limit", limit_price=100.04,
    )  # fmt: skip
    quote = Session.of_quote(Quote(symbol="AAA", price=100.0, at=at(DAYS[1], OPENS), source="test"), None)
    assert list(matches(ticket, [quote], 5.0)) == []
    assert [found.price for found in matches(ticket.model_copy(update={"limit_price": 100.05}), [quote], 5.0)] == [
        exact(100.05)
    ]
