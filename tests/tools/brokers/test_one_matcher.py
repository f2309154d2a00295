"""A bar fills an order once, whenever passes come: what was filled, at which price and when follows from the bars."""

from __future__ import annotations

import datetime as dt
import itertools
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as rules
from hypothesis import strategies as st
from sqlmodel import col, select

from chordesk.models.orders import BrokerFill, OrderTicket
from chordesk.models.settings import Settings
from chordesk.models.tables.orders import EquityMark, Fill
from chordesk.models.text import NEW_YORK
from chordesk.tools.brokers.paper_matching import PaperPrices
from chordesk.tools.decimals import exact
from chordesk.tools.market.clock import ReplayClock, decision_time, exchange_day, exchange_hours
from chordesk.tools.orders.sessions import meet_sessions
from tests.examples import examples
from tests.tools.brokers.sessions import DAYS, FLAT, Figures, Sessions, sessions
from tests.tools.orders.desk import Desk, action, make_desk
from tests.tools.orders.protection.watch import a_pass

SHARE = 0.02
NewDesk = Callable[..., Desk]


class LateClock(ReplayClock):
    """A replay's clock whose pass comes at the close of its day, not five minutes before."""

    def now(self) -> dt.datetime:
        return exchange_hours().close_of(self.session())


@st.composite
def bars(draw: st.DrawFn) -> Figures:
    open_, close = draw(st.integers(80, 120)), draw(st.integers(80, 120))
    high, low = max(open_, close) + draw(st.integers(0, 8)), min(open_, close) - draw(st.integers(0, 8))
    return (float(open_), float(high), float(low), float(close))


PRICES = st.integers(85, 115).map(float)
TERMS = st.one_of(
    st.just({"order_type": "market"}),
    st.builds(lambda limit: {"order_type": "limit", "limit_price": limit}, PRICES),
    st.builds(lambda stop: {"order_type": "stop", "stop_price": stop}, PRICES),
    st.builds(
        lambda stop, limit: {"order_type": "stop_limit", "stop_price": stop, "limit_price": limit}, PRICES, PRICES
    ),
    st.builds(lambda stop: {"order_type": "trailing_stop", "trail_percent": 5.0, "stop_price": stop}, PRICES),
)
KINDS = ("open", "decision", "close")


def filled(market: Sessions, ticket: OrderTicket, passes: list[tuple[int, str]]) -> list[tuple[Any, ...]]:
    """Return the fills of an order after passes, each of them a place in DAYS and an instant of that day."""
    booked: list[BrokerFill] = []
    for place, instant in passes:
        clock = LateClock(DAYS[place]) if instant == "close" else ReplayClock(DAYS[place])
        prices = PaperPrices(
            market.on(clock), Settings(slippage_bps=5.0, paper_volume_share=SHARE), at_open=instant == "open"
        )
        left = exact(ticket.quantity) - sum((exact(fill.quantity) for fill in booked), Decimal(0))
        booked += prices.match(ticket, booked).fills(left, Decimal(0)) if left else []
    return [(fill.quantity, fill.price, fill.at) for fill in booked]


@rules(max_examples=examples(60), deadline=None)
@given(
    rows=st.lists(bars(), min_size=6, max_size=6),
    volumes=st.lists(st.sampled_from([0.0, 40.0, 500.0, 1e6]), min_size=7, max_size=7),
    terms=TERMS,
    side=st.sampled_from(["buy", "sell"]),
    at_open=st.booleans(),
    passes=st.sets(st.tuples(st.integers(0, 6), st.sampled_from(KINDS))),
)
def test_the_number_and_the_instants_of_passes_change_no_fill(
    rows: list[Figures], volumes: list[float], terms: dict[str, Any], side: str, at_open: bool,
    passes: set[tuple[int, str]],
) -> None:  # fmt: skip
    market = Sessions({}, rows={"AAA": [FLAT, *rows]}, volumes=volumes)
    place, placed = (1, exchange_hours().open_of(DAYS[1])) if at_open else (0, decision_time(DAYS[0]))
    ticket = OrderTicket.model_validate(
        {
            "order_id": uuid.UUID(int=7), "account": "paper", "symbol": "AAA", "side": side, "quantity": 30,
            "action": "open" if side == "buy" else "close", "placed_at": placed, "time_in_force": "gtc", **terms,
        }
    )  # fmt: skip
    due = sorted((one for one in passes if one[0] >= place), key=lambda one: (one[0], KINDS.index(one[1])))
    once = filled(market, ticket, [(6, "close")])
    assert filled(market, ticket, [*due, (6, "close")]) == once
    for day, taken in itertools.groupby(once, key=lambda one: exchange_day(one[2])):
        assert sum(quantity for quantity, *_ in taken) <= SHARE * volumes[DAYS.index(day)]
    for quantity, price, at in once:
        _, high, low, _ = market.rows["AAA"][DAYS.index(exchange_day(at))]
        assert quantity > 0
        assert at >= placed
        assert low * 0.9995 <= price <= high * 1.0005


_homes = itertools.count()


@rules(
    max_examples=examples(5), deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(
    rows=st.lists(bars(), min_size=5, max_size=5),
    volumes=st.lists(st.sampled_from([150.0, 300.0, 1e6]), min_size=6, max_size=6),
    protect=st.sampled_from(["stop:3%", "trail:4%"]),
    passes=st.sets(st.integers(1, 4)),
)
def test_the_ledger_is_what_the_bars_say_whatever_passes_ran(
    template_db: Path, tmp_path: Path, rows: list[Figures], volumes: list[float], protect: str, passes: set[int]
) -> None:
    found = []
    for days in ([*sorted(passes), 5], [5]):
        market = Sessions({}, rows={"AAA": [FLAT, *rows]}, volumes=volumes)
        changes = {"protect": protect, "paper_volume_share": SHARE, "slippage_bps": 5.0, "max_order_notional": 1e9}
        desk = make_desk(template_db, tmp_path / str(next(_homes)), market, max_symbol_share=1, **changes)
        desk.run(action(timeInForce="gtc"))
        for place in days:
            desk.market = market.on(ReplayClock(DAYS[place]))
            desk.broker = desk.broker.on(desk.market)  # type: ignore[attr-defined]
            meet_sessions(desk.context())
        with desk.store.read() as session:
            fills = session.exec(select(Fill).order_by(col(Fill.filled_at), col(Fill.created_at))).all()
            marks = {row.day: row.last for row in session.exec(select(EquityMark)).all()}
        capital = desk.settings.starting_cash
        for place, day in enumerate(DAYS[:6]):
            then = [fill for fill in fills if fill.filled_at <= ReplayClock(day).now()]
            signed = [fill.quantity * (1 if fill.side == "buy" else -1) for fill in then]
            paid = sum(one * fill.price for one, fill in zip(signed, then, strict=True))
            assert marks[day] == pytest.approx(capital - paid + sum(signed) * market.rows["AAA"][place][3], abs=1e-6)
        found.append([(fill.side, fill.quantity, fill.price, fill.filled_at) for fill in fills])
        desk.store.close()
    assert found[0] == found[1]


def test_a_stop_that_the_entry_s_own_open_has_passed_sells_at_that_open(new_desk: NewDesk) -> None:
    """Entry and stop are of one instant: 94 is there, and 120 on the next morning is not what it sells at."""
    desk = new_desk(sessions((94, 97, 90, 96), (120, 121, 119, 120), FLAT), protect="none", slippage_bps=10)
    assert isinstance(desk.market, Sessions)
    desk.run(action(plan={"stop": 95.0, "entry": 100.0}))
    for day in DAYS[1:3]:
        desk.market.go(day)
        a_pass(desk)
    with desk.store.read() as session:
        fills = session.exec(select(Fill).order_by(col(Fill.created_at))).all()
    assert [(fill.side, round(fill.price, 4)) for fill in fills] == [("buy", 94.094), ("sell", 93.906)]
    assert {fill.filled_at.astimezone(NEW_YORK) for fill in fills} == {exchange_hours().open_of(DAYS[1])}


@pytest.mark.parametrize(
    ("time", "fills"),
    [
        ("12:00", []),  # the low of 90 may have been before, and the price at noon is not known
        ("15:55", [(10.0, 94.0)]),  # it is 94, below the stop, and a broker would sell there
    ],
)
def test_a_stop_placed_within_a_session(time: str, fills: list[tuple[float, float]]) -> None:
    market = sessions((100, 101, 90, 94), (120, 121, 119, 120))
    ticket = OrderTicket.model_validate(
        {
            "order_id": uuid.UUID(int=7), "account": "paper", "symbol": "AAA", "side": "sell", "quantity": 10,
            "action": "close", "placed_at": dt.datetime.combine(DAYS[1], dt.time.fromisoformat(time), NEW_YORK),
            "time_in_force": "gtc", "order_type": "stop", "stop_price": 95.0,
        }
    )  # fmt: skip
    for last in (1, 2):
        prices = PaperPrices(market.on(ReplayClock(DAYS[last])), Settings(slippage_bps=0), at_open=False)
        assert [(one.quantity, one.price) for one in prices.match(ticket, []).fills(Decimal(10), Decimal(0))] == fills
