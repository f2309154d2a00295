"""A folder of made prices of one exchange, for a demo without a network: real days, steps, lots and exchange rates, and
prices that nobody ever paid. Its symbols say so: MADE01.T, MADE01-USD."""

from __future__ import annotations

import csv
import datetime as dt
import zlib
from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import numpy as np

from chordesk.models.errors import MarketError, UsageError
from chordesk.models.exchanges import EXCHANGES, HOME, Exchange, shown_exchange
from chordesk.models.money import Money
from chordesk.tools.decimals import stepped
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.files.data_folder import ABOUT
from chordesk.tools.market.protocol import Floats

NAMES, SESSIONS, AFTER = 30, 300, 25  # AFTER: sessions behind the day that is replayed
DAY = dt.date(2024, 9, 12)
_SECTORS = ("Energy", "Financials", "Health Care", "Industrials", "Technology")
_LOW, _HIGH = 10.0, 300.0  # dollars that a share costs at first
_OF_A_PAIR = {"step": "0.0001", "quantity step": "0.0001", "lot": "0.0001", "least amount": "0.001"}
_OF_A_SHARE = {"step": "0.01", "quantity step": "1", "lot": "1", "least amount": ""}  # where its exchange states none


def write_made_market(folder: Path, code: str) -> dt.date:
    """Write a data folder of an exchange; return the day to replay. Raises UsageError for New York, whose real prices
    the demo has, and for a currency without a rate of that day."""
    if code == HOME:
        raise UsageError("--market is of another exchange", remedy="leave it out: without it the prices are real")
    exchange = EXCHANGES[code]
    hours = exchange_hours(code)
    day = hours.on_or_after(DAY)
    days = hours.until(hours.after(day, AFTER), SESSIONS)
    draws = np.random.default_rng(zlib.crc32(code.encode()))
    start = np.exp(draws.uniform(np.log(_LOW), np.log(_HIGH), NAMES)) / _dollars(exchange, day)
    symbols = [_symbol(exchange, number + 1) for number in range(NAMES)]
    (folder / "bars").mkdir(parents=True)
    opens, highs, lows, closes = _walks(draws, start, len(days))
    volumes = np.rint(np.exp(draws.normal(13, 0.6, (NAMES, len(days)))))
    for at, symbol in enumerate(symbols):
        figures = ([_price(exchange, one) for one in each[at].tolist()] for each in (opens, highs, lows, closes))
        rows = zip(days, *figures, volumes[at].astype(int).tolist(), strict=True)
        _write(folder / "bars" / f"{symbol}.csv", ("date", "open", "high", "low", "close", "volume"), rows)
    listed = ((one, f"Made {at + 1:02d}", _SECTORS[at % len(_SECTORS)]) for at, one in enumerate(symbols))
    _write(folder / "universe.csv", ("symbol", "name", "sector"), listed)
    stated = _stated(exchange)
    header = ("symbol", "exchange", "currency", *stated)
    _write(folder / "listings.csv", header, ((one, code, exchange.currency, *stated.values()) for one in symbols))
    about = f"made prices on the days of {shown_exchange(code)}: nobody ever paid them, and no result says anything"
    (folder / ABOUT).write_text(f"{about}\n", encoding="utf-8")
    return day


def _symbol(exchange: Exchange, number: int) -> str:
    made = f"MADE{number:02d}"
    return f"{made}.{exchange.suffixes[0]}" if exchange.suffixes else f"{made}-{exchange.currency}"


def _dollars(exchange: Exchange, day: dt.date) -> float:
    """Return what a unit of an exchange's currency was worth on a day, by the ECB."""
    from chordesk.tools.market.ecb import ecb_rates

    try:
        midday = dt.datetime.combine(day, dt.time(12), dt.UTC)
        return 1.0 if exchange.currency == Money().base else ecb_rates().rate(exchange.currency, "USD", midday).rate
    except MarketError as error:
        raise UsageError(f"no made prices in {exchange.currency}: {error}", remedy=str(error.remedy)) from None


def _stated(exchange: Exchange) -> dict[str, str]:
    """Return what `listings.csv` states of each symbol: the steps and the lot that its exchange does not."""
    if not exchange.suffixes:
        return _OF_A_PAIR
    known = {"step": len(exchange.steps) == 1, "lot": exchange.lot is not None}
    return {name: "" if known.get(name) else value for name, value in _OF_A_SHARE.items()}


def _walks(draws: np.random.Generator, start: Floats, days: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return open, high, low and close by name and day: returns of the market, of a sector and of the name itself,
    which drifts for some weeks in one direction, and now and then a jump."""
    names = len(start)
    market, sectors = draws.normal(0.0003, 0.008, days), draws.normal(0, 0.006, (len(_SECTORS), days))
    drift = np.repeat(draws.normal(0, 0.003, (names, days // 30 + 1)), 30, axis=1)[:, :days]
    jumps = np.where(draws.random((names, days)) < 0.004, draws.normal(0, 0.08, (names, days)), 0.0)
    own = draws.normal(0, 0.012, (names, days))
    moves = market + sectors[np.arange(names) % len(_SECTORS)] + drift + own + jumps
    closes = start[:, None] * np.exp(np.cumsum(moves, axis=1))
    before = np.c_[start[:, None], closes[:, :-1]]
    opens = before * np.exp(draws.normal(0, 0.004, (names, days)) + jumps)
    reach = np.abs(draws.normal(0, 0.007, (2, names, days)))
    highs, lows = np.maximum(opens, closes) * np.exp(reach[0]), np.minimum(opens, closes) * np.exp(-reach[1])
    return opens, highs, lows, closes


def _price(exchange: Exchange, value: float) -> Decimal:
    written = Decimal(repr(value))
    if len(exchange.steps) == 1:
        return stepped(written, exchange.steps[0].step(written), ROUND_HALF_EVEN)
    return stepped(written, Decimal(_stated(exchange)["step"]), ROUND_HALF_EVEN)


def _write(path: Path, header: Sequence[str], rows: Iterator[Sequence[object]] | zip[tuple[object, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
