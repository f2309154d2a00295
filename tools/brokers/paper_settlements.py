"""What becomes of positions of the paper books without an order: contracts that end, splits, dividends, spin-offs and
names that are traded no more."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from decimal import ROUND_DOWN, Decimal

from chordesk.models.errors import MarketError
from chordesk.models.exchanges import HOME
from chordesk.models.market import OptionContract, multiplier_of, parse_contract
from chordesk.models.orders import Settlement
from chordesk.models.text import NEW_YORK
from chordesk.tools.books import Books
from chordesk.tools.decimals import exact
from chordesk.tools.market.actions import cash_growth, contract_after
from chordesk.tools.market.clock import hours_of, usual_close
from chordesk.tools.market.prices import actions_of, splits_since, traded_bars, vanished
from chordesk.tools.market.protocol import Action, MarketData

_SESSIONS_BACK = 30


def settlements(
    books: Books, market: MarketData, delisted_pays: float, adjusted: Mapping[str, dt.date]
) -> list[Settlement]:
    """Return the settlements of contracts past their expiry, and of shares that are traded no more at that fraction of
    their last close. A contract without a known close of its underlying waits.

    A written put that ends in the money is assigned: its shares are bought at the strike. A bought contract that ends
    in the money is closed at what it is worth, as brokers that sell out before the exercise do. adjusted: contracts
    that deliver what 100 shares of before that day have become.
    """
    found: list[Settlement] = []
    for symbol, (held, _) in sorted(books.held.items()):
        contract = parse_contract(symbol)
        if contract is None:
            found += _delisted(symbol, held, market, exact(delisted_pays))
            continue
        if market.clock.now().date() <= contract.expiry:
            continue
        close = _close_at(contract, market)
        if close is not None:
            found += ended_legs(contract, held, *close, _delivered(contract, adjusted.get(symbol), market))
    return found


def _delisted(symbol: str, held: Decimal, market: MarketData, pays: Decimal) -> list[Settlement]:
    if (gone := vanished(market, symbol)) is None:
        return []
    last, close = gone
    amounts = {"quantity": float(-held), "price": float(exact(close) * pays), "at": market.clock.now()}
    return [Settlement.model_validate({"id": f"{symbol}/{last}", "kind": "delisted", "symbol": symbol, **amounts})]


def _close_at(contract: OptionContract, market: MarketData) -> tuple[Decimal, dt.datetime] | None:
    """Return the underlying's close on the expiry's session, if the bars at hand have it: the session of that day, or
    the last one before a day without."""
    try:
        bars = traded_bars(market, contract.underlying, _SESSIONS_BACK)
        session = hours_of(contract.underlying).last_closed(dt.datetime.combine(contract.expiry, dt.time.max, NEW_YORK))
    except MarketError:
        return None
    closes = dict(zip(bars.dates, bars.close, strict=True))
    if session not in closes:
        return None
    at = usual_close(contract.expiry, HOME)
    return exact(float(closes[session])) * exact(splits_since(market, contract.underlying, session)), at


def _delivered(contract: OptionContract, split_on: dt.date | None, market: MarketData) -> Decimal:
    """Return the shares that a contract delivers for one of the 100 that it was made for."""
    if split_on is None:
        return Decimal(1)
    before, after = split_on - dt.timedelta(days=1), contract.expiry
    grown = [splits_since(market, contract.underlying, day) for day in (before, after)]
    return exact(grown[0]) / exact(grown[1])


def ended_legs(
    contract: OptionContract, held: Decimal, close: Decimal, at: dt.datetime, delivered: Decimal
) -> list[Settlement]:
    worth = (delivered * close - contract.strike) * (1 if contract.kind == "call" else -1)

    def leg(kind: str, symbol: str, quantity: Decimal, price: Decimal) -> Settlement:
        amounts = {"quantity": float(quantity), "price": float(price)}
        what = f"{symbol}/fraction" if kind == "fraction" else symbol
        names = {"id": f"{contract.symbol}/{what}", "kind": kind, "symbol": symbol}
        return Settlement.model_validate({**names, **amounts, "at": at})

    if worth <= 0:
        return [leg("expired", contract.symbol, -held, Decimal(0))]
    if held > 0:
        return [leg("exercised", contract.symbol, -held, worth)]
    shares = -held * exact(multiplier_of(contract.symbol)) * delivered * (1 if contract.kind == "put" else -1)
    whole, strike = shares.to_integral_value(ROUND_DOWN), contract.strike / delivered
    legs = [
        leg("assigned", contract.symbol, -held, Decimal(0)),
        leg("delivered", contract.underlying, whole, strike),
    ]
    if fraction := abs(shares - whole):
        legs.append(leg("fraction", contract.underlying, -fraction, abs(strike - close)))
    return legs


def changes(
    symbol: str, held: Decimal, cost: Decimal, action: Action, market: MarketData, adjusted: bool
) -> Iterator[Settlement]:
    """Yield what an action does to a position as it was the evening before. A dividend is cash, paid by who is short. A
    split changes whole shares and pays a fraction at the last close. Without a holding both are yielded for waiting
    orders. Contracts follow as `contract_after` says; what it has no contract for is adjusted."""

    def leg(kind: str, quantity: Decimal, price: Decimal, named: str = symbol, **terms: float) -> Settlement:
        facts = {"id": f"{named}/{action.day}/{kind}", "kind": kind, "symbol": named, **terms}
        amounts = {"quantity": float(quantity), "price": float(price)}
        return Settlement.model_validate({**facts, **amounts, "at": hours_of(symbol).open_of(action.day)})

    contract, ratio = parse_contract(symbol), exact(action.split)
    if contract is not None:
        after = contract_after(contract, action)
        if not held or adjusted or after == contract:
            return
        if after is None:
            yield leg("adjusted", Decimal(0), Decimal(0))
        else:
            yield leg("converted", -held, cost)
            yield leg("converted", held * ratio, cost / ratio, after.symbol)
        return
    if action.dividend:
        yield leg("dividend", held, exact(action.dividend), growth=cash_growth(action))
    if action.spun:
        yield leg("split", Decimal(0), Decimal(0), growth=cash_growth(action))
        yield from _spun_off(symbol, held, action, market)
    if ratio != 1:
        whole = (held * ratio).to_integral_value(ROUND_DOWN)
        yield leg("split", whole - held, Decimal(0), ratio=action.split, growth=action.split)
        if (fraction := held * ratio - whole) and (close := _close_before(symbol, action, market)) is not None:
            yield leg("fraction", fraction, close)


def _spun_off(symbol: str, held: Decimal, action: Action, market: MarketData) -> Iterator[Settlement]:
    """Yield the whole shares of another company that came with those held, without a cost of their own, and the cash
    for a fraction: at what the parent's price lost for one of them."""
    came = held * exact(action.spun_shares)
    whole = came.to_integral_value(ROUND_DOWN)
    at, named = hours_of(symbol).open_of(action.day), f"{action.spun}/{action.day}/spun-off/{symbol}"
    amounts = {"kind": "split", "symbol": action.spun, "quantity": float(whole), "price": 0.0, "at": at}
    if whole:
        yield Settlement.model_validate({**amounts, "id": named})
    close = _close_before(symbol, action, market)
    if (fraction := came - whole) and close is not None:
        lost = close * exact(action.split) * (1 - 1 / exact(cash_growth(action))) / exact(action.spun_shares)
        paid = {"kind": "fraction", "quantity": float(fraction), "price": float(lost)}
        yield Settlement.model_validate({**amounts, **paid, "id": f"{named}/fraction"})


def _close_before(symbol: str, action: Action, market: MarketData) -> Decimal | None:
    """Return the last close before an action, for a share after it and without the cash: its own, and what was paid on
    days since that close that had no trade."""
    bars = traded_bars(market, symbol, (market.clock.session() - action.day).days + _SESSIONS_BACK)
    before = [place for place, day in enumerate(bars.dates) if day < action.day]
    if not before:
        return None
    last = bars.dates[before[-1]]
    close = exact(float(bars.close[before[-1]])) * exact(splits_since(market, symbol, last))
    for each in actions_of(market, symbol, last):
        if each.spun and each.day < action.day:
            close /= exact(each.growth)
        elif each.day <= action.day:
            close = (close - exact(each.dividend)) / exact(each.split)
    return max(close, Decimal(0))
