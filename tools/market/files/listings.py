"""`listings.csv` of own data: in what currency the prices of a symbol are, and by what it is traded."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

from chordesk.models.errors import MarketError
from chordesk.models.exchanges import CRYPTO, EXCHANGES, currency_of, exchange_of
from chordesk.models.market import Listing
from chordesk.tools.market.files.tables import Column, Problems, Unreadable, is_empty, rows_of, symbol_of, text_of
from chordesk.tools.market.home import MINOR_UNITS, TRADED_REMEDY, major_of, place_of_exchange, untraded
from chordesk.tools.market.units import has_parts

_MOST_DECIMALS = 8
_KINDS = {
    **dict.fromkeys(("share", "stock", "equity", "common stock", "adr"), "share"),
    **dict.fromkeys(("etf", "fund", "etp", "etc"), "etf"),
    **dict.fromkeys(("crypto", "cryptocurrency", "coin", "pair"), "crypto"),
}


class StatedListing(NamedTuple):
    """What a row states. parts: how many of the unit in which its prices are written are one of its currency."""

    fields: Mapping[str, Any]
    parts: int


def _kind(text: str) -> str | None:
    if is_empty(text):
        return None
    if text.lower() not in _KINDS:
        raise Unreadable(f"{text[:40]!r} is no kind of listing: write share, etf or crypto")
    return _KINDS[text.lower()]


def _money(text: str) -> tuple[str, int] | None:
    if is_empty(text):
        return None
    if (found := major_of(text)) is None:
        raise Unreadable(f"{text[:40]!r} is no currency that the desk knows: write GBP, or GBp for pence")
    return found


def _amount(text: str) -> Decimal | None:
    if is_empty(text):
        return None
    try:
        found = Decimal(text)
    except InvalidOperation:
        raise Unreadable(f"{text[:40]!r} is no amount: write it as 0.0001 or 100") from None
    if not found.is_finite() or found <= 0:
        raise Unreadable(f"{text[:40]!r} is no amount above 0; leave the cell empty where it is not known")
    if -int(found.normalize().as_tuple().exponent) > _MOST_DECIMALS:
        raise Unreadable(f"{text[:40]!r} has more than {_MOST_DECIMALS} decimals, of which no amount is kept exactly")
    return found


LISTING_COLUMNS = {
    "symbol": Column(("symbol", "ticker", "sym"), symbol_of, required=True),
    "exchange": Column(("exchange", "mic", "exchangecode"), text_of),
    "currency": Column(("currency", "ccy", "pricecurrency", "quotecurrency"), _money),
    "kind": Column(("kind", "type", "assettype"), _kind),
    "price_step": Column(("step", "pricestep", "tick", "ticksize"), _amount),
    "quantity_step": Column(("quantitystep", "increment", "quantityincrement", "stepsize"), _amount),
    "lot": Column(("lot", "lotsize", "boardlot", "roundlot"), _amount),
    "least_amount": Column(("leastamount", "least", "minamount", "minquantity", "minimum"), _amount),
}
_HEADINGS = {"price_step": "step", "quantity_step": "quantity step", "least_amount": "least amount"}


def read_listings(path: Path, name: str, problems: Problems) -> dict[str, StatedListing]:
    """Return what a file states of each of its symbols. A row that contradicts the form of its symbol, the exchange or
    itself is an error, with its value."""
    found: dict[str, StatedListing] = {}
    places: dict[str, int] = {}
    for row, values, _ in rows_of(path, name, LISTING_COLUMNS, problems):
        symbol = values["symbol"]
        if (first := places.setdefault(symbol, row)) != row:
            problems.error(name, f"{symbol} has a second row; the first is row {first}", row, "symbol")
            continue
        try:
            found[symbol] = _stated(values)
        except Unreadable as error:
            problems.error(name, str(error), row, error.column)
    return found


def _stated(values: Mapping[str, Any]) -> StatedListing:
    symbol = str(values["symbol"])
    own, (currency, parts) = exchange_of(symbol), values["currency"] or (currency_of(symbol), 1)
    _require_place(symbol, values["exchange"])
    if values["currency"] is None and has_parts(currency):
        raise Unreadable(f"{symbol} states no currency: {_either(currency)}", "currency")
    written = currency if parts == 1 else MINOR_UNITS[currency][0]
    if (why := untraded(symbol, currency=written)) is not None:
        raise Unreadable(f"{why}; {TRADED_REMEDY}", "currency")
    if (pair := own.code == CRYPTO) != (values["kind"] == "crypto") and values["kind"] is not None:
        what = "a pair" if pair else f"of {own.code} ({own.place})"
        raise Unreadable(f"{symbol} is {what} by its symbol, and of the kind {values['kind']} here", "kind")
    if pair and currency != currency_of(symbol):
        raise Unreadable(
            f"{symbol} is priced in {currency_of(symbol)} by its symbol, and in {currency} here", "currency"
        )
    given = {ours: values[ours] for ours in ("kind", "price_step", "quantity_step", "lot", "least_amount")}
    given = {ours: value for ours, value in given.items() if value is not None}
    if "price_step" in given:
        given["price_step"] /= parts
    step = given.get("quantity_step", Decimal(1))
    if pair and "quantity_step" in given:
        given.setdefault("lot", step)
    for ours in ("lot", "least_amount"):
        if ours in given and given[ours] % step:
            what = f"{_HEADINGS.get(ours, ours)} of {given[ours]}"
            raise Unreadable(f"{symbol} has a {what}, which is no multiple of its quantity step {step}", ours)
    return StatedListing({**given, "currency": currency}, parts)


def _require_place(symbol: str, exchange: str | None) -> None:
    if exchange is None:
        return
    own = exchange_of(symbol)
    if (why := untraded(symbol, exchange=exchange)) is not None:
        raise Unreadable(f"{why}; its symbol names {own.code} ({own.place})", "exchange")
    code = exchange.upper()
    if code in EXCHANGES and code != own.code:
        raise Unreadable(f"{symbol} is of {own.code} ({own.place}) by its symbol, and of {code} here", "exchange")
    if own.suffixes and code not in EXCHANGES and place_of_exchange(exchange) is None:
        raise Unreadable(f"{exchange[:40]!r} is no exchange that the desk knows: write {own.code}", "exchange")


def _either(currency: str) -> str:
    return f"write {currency} or, where its prices are in hundredths, {MINOR_UNITS[currency][0]}"


def units_of(symbols: tuple[str, ...], stated: Mapping[str, StatedListing], problems: Problems, file: str) -> list[int]:
    """Return by what the written prices of each symbol are divided. One whose exchange quotes in hundredths and that no
    row speaks of is an error: its prices may be in pence or in pounds. Beside a row that cannot be read none is said
    to be missing: it may be that one."""
    found, all_read = [], problems.counts[file, "error"] == 0
    for symbol in symbols:
        row = stated.get(symbol)
        try:
            currency = currency_of(symbol)
        except MarketError:
            currency = ""
        if row is None and all_read and has_parts(currency):
            problems.error(file, f"has no row of {symbol}, whose prices may be in two units: {_either(currency)}")
        found.append(row.parts if row is not None else 1)
    return found


def with_stated(listings: Mapping[str, Listing], stated: Mapping[str, StatedListing]) -> dict[str, Listing]:
    """Return the listings of a universe with what is stated of them, and those that only are stated."""
    found = dict(listings)
    for symbol, row in stated.items():
        known = found.get(symbol)
        kept = known.model_dump(include={"name", "sector", "industry", "company", "aliases"}) if known else {}
        found[symbol] = Listing(**{"symbol": symbol, **kept, **row.fields})
    return found
