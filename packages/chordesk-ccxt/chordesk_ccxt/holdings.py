"""Balances at a venue as an account elsewhere, for `desk holdings refresh`: by a key that can do nothing but read."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal

from chordesk.plugins import DeskError, Holding, Snapshot, Statement

from .rights import FIAT, balances_of, require_reading, rights_of
from .settings import near
from .venue import Venue

STAND_IN = "CCXT_STAND_IN"  # an address on this machine in place of the venue
_QUOTES = ("USD", "USDT", "USDC", "EUR")


def kraken(environ: Mapping[str, str]) -> Snapshot:
    return _read("kraken", environ["KRAKEN_READ_KEY"], environ["KRAKEN_READ_SECRET"], environ)


def binance(environ: Mapping[str, str]) -> Snapshot:
    return _read("binance", environ["BINANCE_READ_KEY"], environ["BINANCE_READ_SECRET"], environ)


def _read(name: str, key: str, secret: str, environ: Mapping[str, str]) -> Snapshot:
    """Raises SettingError for a key that may trade or withdraw, MarketUnavailable for no answer."""
    venue = Venue(name, key=key, secret=secret, url=near(environ.get(STAND_IN, "")))
    rights = rights_of(venue)
    require_reading(rights, venue)
    found = balances_of(venue)
    coins = sorted({coin for part in (found.held, found.locked) for coin, amount in part.items() if amount})
    prices = _prices(venue, coins)
    rows, notes = [], []
    for line, coin in enumerate(coins, 1):
        quantity = found.held.get(coin, Decimal(0)) + found.locked.get(coin, Decimal(0))
        rows.append(_holding(line, coin, quantity, prices))
        if coin not in FIAT and coin not in prices:
            notes.append(f"{venue.title} has no price of {coin} in {' or '.join(_QUOTES)}")
        if found.locked.get(coin):
            notes.append(f"of {coin}, {found.locked[coin]} are staked or saved")
    if rights.withdraws is None or rights.trades is None:
        notes.append(f"{venue.title} does not say what the key may do: look there that it only reads")
    today = dt.datetime.now(dt.UTC).date()
    return Snapshot((Statement(found.number, tuple(rows), as_of=today, label=venue.title),), tuple(notes))


def _holding(line: int, coin: str, quantity: Decimal, prices: Mapping[str, tuple[str, Decimal]]) -> Holding:
    if coin in FIAT:
        rate = Decimal(1) if coin == "USD" else prices[coin][1] if prices.get(coin, ("",))[0] == "USD" else None
        return Holding(line, coin, "cash", quantity, coin, rate=rate)
    if coin not in prices:
        return Holding(line, coin, "crypto", quantity, "USD")
    quote, price = prices[coin]
    rate = Decimal(1) if quote == "USD" else None
    return Holding(line, coin, "crypto", quantity, quote, symbol=f"{coin}-{quote}", price=price, rate=rate)


def _prices(venue: Venue, coins: Sequence[str]) -> dict[str, tuple[str, Decimal]]:
    """Return a price of each coin that the venue has one of, with its currency: in one request."""
    pairs = venue.pairs()
    chosen = {
        coin: quote
        for coin in coins
        if (quote := next((one for one in _QUOTES if one != coin and f"{coin}-{one}" in pairs), None)) is not None
    }
    if not chosen:
        return {}
    try:
        told = venue.ask("fetch_tickers", [f"{coin}/{quote}" for coin, quote in chosen.items()])
    except DeskError:
        return {}  # what is held is known all the same, and is unvalued
    found = {}
    for coin, quote in chosen.items():
        last = (told.get(f"{coin}/{quote}") or {}).get("last") if isinstance(told, dict) else None
        if isinstance(last, int | float) and math.isfinite(last) and last > 0:
            found[coin] = (quote, Decimal(str(last)))
    return found
