"""The account of a backtest at a close: which of its positions have a price of that session."""

from __future__ import annotations

import datetime as dt

import pytest

from chordesk.models.database.store import Store
from chordesk.models.tables.orders import Account, BookedSettlement
from chordesk.tools.backtests import mark_account
from chordesk.tools.market.clock import ReplayClock, exchange_hours
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket

# The default data have no bar of AAPL on this session, and one of IBM.
GAP = dt.date(2010, 6, 29)
DAYS = {"before": dt.date(2010, 6, 28), "gap": GAP}
ACCOUNT = "backtest-a"


def held(store: Store, *symbols: str) -> None:
    with store.session() as session:
        session.add(Account(name=ACCOUNT, cash=1_000.0, opening_cash=1_000.0))
        for symbol in symbols:
            session.add(
                BookedSettlement(
                    account=ACCOUNT,
                    id=symbol,
                    kind="exercise",
                    symbol=symbol,
                    quantity=2.0,
                    price=100.0,
                    settled_at=dt.datetime(2010, 6, 25, 20, tzinfo=dt.UTC),
                )
            )


@pytest.mark.parametrize(("day", "stale"), [("before", []), ("gap", ["AAPL"])])
def test_a_position_that_did_not_trade_is_valued_at_its_last_close_and_named(
    data: ReplayData, store: Store, day: str, stale: list[str]
) -> None:
    held(store, "AAPL", "IBM")
    market = ReplayMarket(data, ReplayClock(DAYS[day]))
    with store.read() as session:
        mark = mark_account(session, market, ACCOUNT, exchange_hours().close_of(DAYS[day]), None)
    closes = {symbol: float(market.bars(symbol, 5).close[-1]) for symbol in ("AAPL", "IBM")}
    assert mark.gross == pytest.approx(2 * sum(closes.values()))
    assert mark.equity == pytest.approx(mark.cash + mark.gross)
    assert (mark.stale, mark.unpriced) == (stale, [])
