"""A desk abroad does what a desk at home would: what a currency is called and how large its unit is decides nothing."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as rules
from hypothesis import strategies as st

from chordesk.models.settings.running_desk import snapshot
from chordesk.tools.ledger import account_money, value
from chordesk.tools.market.files.market import build
from chordesk.tools.market.prices import Quotes
from tests.examples import examples
from tests.tools.market.files import folders
from tests.tools.market.files.folders import HEADER, sessions, write_table
from tests.tools.orders.desk import Desk, action, make_desk
from tests.tools.orders.protection.watch import a_pass

_homes = itertools.count()
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
RULES = {"deadline": None, "suppress_health_check": list(HealthCheck), "phases": PHASES}
AT, LAST = 25, 31  # the first session that is traded on, and the last


class Place(NamedTuple):
    exchange: str
    symbols: tuple[str, str]
    currency: str


# Duties by share and a lot of each listing's own; limits of a day, a lot, and no sale on the day of purchase.
HONG_KONG = Place("XHKG", ("0700.HK", "0005.HK"), "HKD")
SHANGHAI = Place("XSHG", ("600519.SS", "601318.SS"), "CNY")
FRANKFURT = Place("XETR", ("AAA.DE", "BBB.DE"), "EUR")


class Script(NamedTuple):
    """What is the same of two desks: prices in the unit of one of them, rates, and what is asked for when."""

    prices: tuple[tuple[Sequence[Decimal], ...], ...]  # of each symbol the open, high, low and close of each session
    rates: Sequence[Decimal]
    asks: dict[int, list[tuple[int, str, str, Decimal]]]  # by session: symbol, action, order type, size
    protect: str


def script(seed: int, step: Decimal, lot: int) -> Script:
    """Walks in steps of the price, wide enough for day limits and stops to be met."""
    drawn = random.Random(seed)
    walks = []
    for _ in range(2):
        close, rows = Decimal(drawn.randrange(2_000, 20_000)) * step, []
        for _ in range(LAST + 1):
            opens = _stepped(close * Decimal(str(drawn.choice([0.93, 0.98, 1, 1.01, 1.05]))), step)
            closes = _stepped(opens * Decimal(str(drawn.choice([0.92, 0.97, 1, 1.02, 1.06]))), step)
            ends = max(opens, closes) + drawn.randrange(5) * step, min(opens, closes) - drawn.randrange(5) * step
            rows.append((opens, *ends, closes))
            close = closes
        walks.append(tuple(rows))
    rates = [Decimal(drawn.randrange(1_000, 1_400)) / 10_000 for _ in range(LAST + 1)]
    kinds = ["market", "market", "limit", "notional", "close"]
    asks = {
        at: [
            (drawn.randrange(2), kind := drawn.choice(kinds), "open" if kind != "close" else kind,
             Decimal(drawn.randrange(1, 12 * lot)))
        ]
        for at in range(AT, LAST, 1)
    }  # fmt: skip
    return Script(tuple(walks), rates, asks, drawn.choice(["none", "stop:5%", "trail:4%"]))


def _stepped(price: Decimal, step: Decimal) -> Decimal:
    return max((price / step).to_integral_value() * step, 10 * step)


def run(
    template: Path, place: Place, told: Script, *, unit: int = 1, step: Decimal, lot: int, currency: str = "USD"
) -> list[Any]:
    """Return what a desk did session by session. unit: by which its prices and steps are multiplied, and its rates
    divided; currency: of its account."""
    home = template.parent / f"redenominated-{next(_homes)}"
    days = sessions("2024-09-02", LAST + 2, place.exchange)
    for symbol, rows in zip(place.symbols, told.prices, strict=True):
        bars = [(day, *(one * unit for one in row), 10**7) for day, row in zip(days, rows, strict=False)]
        write_table(home / "own" / "bars" / f"{symbol}.csv", HEADER, bars)
    listed = [(symbol, place.currency, step * unit, lot) for symbol in place.symbols]
    write_table(home / "own" / "listings.csv", ("symbol", "currency", "step", "lot"), listed)
    if place.currency != currency:
        rates = [(day, f"{place.currency}{currency}", rate / unit) for day, rate in zip(days, told.rates, strict=False)]
        write_table(home / "own" / "fx.csv", ("date", "pair", "rate"), rates)
    own: dict[str, Any] = {"data": home / "own", "replay_date": days[AT], "exchange": place.exchange}
    own |= {"protect": told.protect, "currency": currency, "max_symbol_share": 0.6, "slippage_bps": 0}
    own |= {
        "max_order_notional": 60_000,
        "max_symbol_notional": 90_000,
        "max_daily_loss": 1,
        "max_drawdown": 1,
        "max_price_collar": 0.5,
    }
    market = build(folders.settings(home, home / "own", exchange=place.exchange), days[AT])
    desk = make_desk(template, home / "home", market, **own)
    desk.settings = desk.settings.model_copy(update={"market": "files"})
    try:
        return [_session(desk, place, told, at, days, unit) for at in range(AT, LAST)]
    finally:
        desk.store.close()


def _session(desk: Desk, place: Place, told: Script, at: int, days: Sequence[dt.date], unit: int) -> list[Any]:
    for which, kind, act, size in told.asks[at]:
        symbol = place.symbols[which]
        terms: dict[str, Any] = {"quantity": float(size)}
        if kind == "notional":
            terms = {"quantity": None, "notional": float(size * 100)}
        elif kind == "limit":
            price = float(told.prices[which][at][3] * unit)
            terms |= {"orderType": "limit", "limitPrice": price, "timeInForce": "gtc"}
        elif kind == "close":
            terms = {"quantity": desk.positions().get(symbol, 0.0) or 1.0}
        desk.run(action(symbol, act, **terms), settings=snapshot(desk.settings))
    desk.go(days[at + 1])
    a_pass(desk)
    with desk.store.read() as session:
        money = account_money(session, desk.settings, "paper")
        view = value(session, Quotes(desk.market, money), "paper")
    orders = [
        (place.symbols.index(order.symbol), order.action, order.side, order.order_type, order.state, order.quantity,
         order.denial_code, _back(order.limit_price, unit), _back(order.stop_price, unit))
        for order in desk.orders()
    ]  # fmt: skip
    fills = sorted(
        (place.symbols.index(fill.symbol), fill.side, fill.quantity, _back(fill.price, unit), fill.commission)
        for fill in desk.fills()
    )
    assert view.equity is not None
    return [at, orders, fills, round(view.cash, 6), round(view.equity, 6)]


def _back(price: float | None, unit: int) -> Decimal | None:
    return None if price is None else (Decimal(str(price)) / unit).normalize()


@pytest.mark.long
@rules(max_examples=examples(5), **RULES)  # type: ignore[arg-type]
@given(st.integers(0, 10**6), st.sampled_from([HONG_KONG, SHANGHAI]))
def test_a_currency_of_a_hundredth_changes_nothing(template_db: Path, seed: int, place: Place) -> None:
    """Prices and their steps by 100, the rate by a hundredth, as from pounds to pence: sizes, denials, stops, limits of
    the day, duties, fills and equity are the same."""
    step, lot = Decimal("0.05"), 100
    told = script(seed, step, lot)
    assert run(template_db, place, told, step=step, lot=lot) == run(
        template_db, place, told, unit=100, step=step, lot=lot
    )


@pytest.mark.long
@rules(max_examples=examples(2), **RULES)  # type: ignore[arg-type]
@given(st.integers(0, 10**6))
def test_another_name_of_the_money_changes_nothing(template_db: Path, seed: int) -> None:
    """A desk in euros of Frankfurt and one in dollars of the same steps and lot there do the same: what counts is the
    listing and not what its currency is called."""
    step, lot = Decimal("0.05"), 10
    told = script(seed, step, lot)
    euros = run(template_db, FRANKFURT, told, step=step, lot=lot, currency="EUR")
    dollars = FRANKFURT._replace(currency="USD")
    assert euros == run(template_db, dollars, told, step=step, lot=lot, currency="USD")
