"""One valuation: whatever an account trades, on whatever days and with whatever holes in the prices, every place that
values it says the same to the cent."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlmodel import select

from chordesk.models.orders import PAID_FOR
from chordesk.models.tables.orders import BookedSettlement, EquityMark, Fill
from chordesk.tasks.reading.accounts import account_detail, equity_curve, equity_now, held_symbols
from chordesk.tasks.reading.desk_status import database_state
from chordesk.tools.decimals import exact
from chordesk.tools.ledger import value
from chordesk.tools.market.clock import ReplayClock, exchange_hours
from chordesk.tools.market.prices import STALE_DAYS, Quotes
from chordesk.tools.market.protocol import Action
from chordesk.tools.market.replay.market import Columns, ReplayData, ReplayMarket
from chordesk.tools.model_tools.portfolio import portfolio_get
from chordesk.tools.orders.snapshots import take_snapshot
from chordesk.tools.registry import Arguments, ToolContext
from tests.examples import examples
from tests.tools.orders.desk import Desk, action, make_desk

DAYS = exchange_hours().between(dt.date(2010, 3, 1), dt.date(2010, 4, 9))
SYMBOLS = ("AAA", "BBB", "CCC")
# By day: what is bought or sold of each symbol, in shares; None leaves the day out.
Plan = list[tuple[int, int, int] | None]


@st.composite
def markets(draw: st.DrawFn) -> ReplayData:
    """Prices that go anywhere, with holes, splits and dividends; a name may end early."""
    seed, hole = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([0.0, 0.2, 0.6]))
    chance = np.random.default_rng(seed)
    rows: list[tuple[int, float, float, float, float, float]] = []
    start = [0]
    for _ in SYMBOLS:
        ends = int(chance.integers(3, len(DAYS) + 8))
        for place, day in enumerate(DAYS):
            if place and (place >= ends or chance.random() < hole):
                continue
            opens, close = (round(float(one), 2) for one in chance.uniform(20, 60, 2))
            rows.append((day.toordinal(), opens, max(opens, close) + 1, min(opens, close) - 1, close, 1e6))
        start.append(len(rows))
    day, *figures = (np.array(column) for column in zip(*rows, strict=True))
    columns = Columns(np.array(SYMBOLS), np.array(start), day.astype(np.int32), *figures)
    acted = {}
    for symbol, first, end in zip(SYMBOLS, start, start[1:], strict=False):
        places = sorted(chance.choice(range(first + 1, end), min(2, end - first - 1), replace=False).tolist())
        pairs = [chance.choice([(2.0, 0.0), (0.1, 0.0), (1.5, 0.0), (1.0, 0.37), (3.0, 0.5)]) for _ in places]
        acted[symbol] = [
            Action(dt.date.fromordinal(int(columns.day[at])), float(split), float(paid), float(split))
            for at, (split, paid) in zip(places, pairs, strict=True)
        ]
    return ReplayData(columns, {}, actions=acted)


@settings(max_examples=examples(4), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    data=markets(),
    plan=st.lists(st.none() | st.tuples(*[st.integers(-30, 60)] * 3), min_size=4, max_size=len(DAYS)),
    pays=st.sampled_from([1.0, 0.0]),
)
def test_every_place_values_an_account_to_the_same_cent(
    template_db: Path, tmp_path_factory: object, data: ReplayData, plan: Plan, pays: float
) -> None:
    home = Path(tmp_path_factory.mktemp("valued"))  # type: ignore[attr-defined]
    market = ReplayMarket(data, ReplayClock(DAYS[0]))
    terms = {"commission_per_share": 0.01, "slippage_bps": 5, "delisted_pays": pays, "max_symbol_share": 1}
    desk = make_desk(template_db, home, market, **terms)
    try:
        for day, wanted in zip(DAYS, plan, strict=False):
            if wanted is None or day not in data.sessions:
                continue
            desk.go(day)
            desk.run(*(_action(symbol, shares) for symbol, shares in zip(SYMBOLS, wanted, strict=True)))
            _is_one(desk)
    finally:
        desk.store.close()


def _action(symbol: str, shares: int) -> dict[str, object]:
    if shares == 0:
        return action(symbol, "hold")
    return action(symbol, "open" if shares > 0 else "reduce", quantity=float(abs(shares)))


def _is_one(desk: Desk) -> None:
    market, now = desk.market, desk.market.clock.now()
    with desk.store.read() as session:
        own = _by_hand(session.exec(select(Fill)).all(), session.exec(select(BookedSettlement)).all(), market)
        found = value(session, Quotes(market), "paper")
        past = value(session, Quotes(market), "paper", now)
        detail = account_detail(session, desk.settings, "paper", take_snapshot(market, held_symbols(session, "paper")))
        curve = equity_curve(session, "paper", 100).days  # of GET /accounts/paper/equity, the record and reports
        tile = equity_now(session, "paper", now.date())  # of the front door
        status = database_state(session, desk.settings).equity  # of `desk status` and `GET /desk`
        if not curve:
            return  # no order of it was ever checked
        assert session.get(EquityMark, ("paper", now.date())) is not None
        assert all(row.filled_at <= now for row in session.exec(select(Fill))), "nothing of a later session is booked"
    context = ToolContext(market, market.clock, desk.store, desk.settings, "paper", None)
    tool = portfolio_get(context, Arguments())["portfolio"]
    assert own == pytest.approx(found.equity, abs=1e-6)
    assert detail.equity is not None
    assert tile is not None
    assert status is not None
    assert found.equity == past.equity == detail.value == curve[-1].equity == detail.equity.equity == tile.equity
    assert status.equity == tile.equity
    assert tool["equity"] == round(own, 2)
    first, last = curve[0].day, curve[-1].day
    assert [one.day for one in curve] == [day for day in market.sessions(100) if first <= day <= last]


def _by_hand(fills: Sequence[Fill], ended: Sequence[BookedSettlement], market: ReplayMarket) -> float:
    """Return the equity without the ledger: the cash of all fills and ends, and the shares at their last close."""
    cash, held = Decimal(100_000), dict.fromkeys(SYMBOLS, Decimal(0))
    for fill in fills:
        signed = exact(fill.quantity) * (1 if fill.side == "buy" else -1)
        cash -= signed * exact(fill.price) + exact(fill.commission)
        held[fill.symbol] += signed
    for row in ended:
        paid_for = row.kind in PAID_FOR
        cash += exact(row.quantity) * exact(row.price) * (1 if paid_for else -1)
        held[row.symbol] += 0 if paid_for else exact(row.quantity)
    for symbol, shares in held.items():
        bars = market.bars(symbol, 1)
        if shares:
            assert (market.clock.session() - bars.dates[-1]).days <= STALE_DAYS, "what is traded no more has ended"
            cash += shares * exact(float(bars.close[-1]))
    return float(cash)
