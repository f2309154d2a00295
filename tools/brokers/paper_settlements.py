"""Changes of positions without an order on the paper broker: contracts that end, names that are traded no more, splits
and dividends."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from decimal import ROUND_DOWN, Decimal

from chordesk.models.contracts import OptionContract, contract_of, multiplier_of, parse_contract
from chordesk.models.errors import MarketError
from chordesk.models.orders import Settlement
from chordesk.models.text import NEW_YORK
from chordesk.tools.decimals import exact
from chordesk.tools.ledger import Books
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.prices import splits_since, traded_bars, vanished
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
            found += _ended(contract, held, *close, _delivered(contract, adjusted.get(symbol), market))
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
        session = exchange_hours().last_closed(dt.datetime.combine(contract.expiry, dt.time.max, NEW_YORK))
    except MarketError:
        return None
    closes = dict(zip(bars.dates, bars.close, strict=True))
    if session not in closes:
        return None
    at = dt.datetime.combine(contract.expiry, dt.time(16), market.clock.now().tzinfo)
    return exact(float(closes[session])) * exact(splits_since(market, contract.underlying, session)), at


def _delivered(contract: OptionContract, split_on: dt.date | None, market: MarketData) -> Decimal:
    """Return the shares that a contract delivers for one of the 100 that it was made for."""
    if split_on is None:
        return Decimal(1)
    before, after = split_on - dt.timedelta(days=1), contract.expiry
    grown = [splits_since(market, contract.underlying, day) for day in (before, after)]
    return exact(grown[0]) / exact(grown[1])


def _ended(
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


def split_id(symbol: str, day: dt.date) -> str:
    return f"{symbol}/{day}/split"


def changes(
    symbol: str, held: Decimal, cost: Decimal, action: Action, market: MarketData, adjusted: bool
) -> Iterator[Settlement]:
    """Yield what an action does to a position as it was the evening before. A dividend is cash, paid by who is short. A
    split changes whole shares and pays a fraction at the last close; without a holding it is yielded for waiting
    orders. Contracts follow a split of one share into a whole number if the strike divides by it; any other split
    adjusts them."""

    def leg(kind: str, quantity: Decimal, price: Decimal, named: str = symbol, *, ratio: float = 1.0) -> Settlement:
        facts = {"id": f"{named}/{action.day}/{kind}", "kind": kind, "symbol": named, "ratio": ratio}
        amounts = {"quantity": float(quantity), "price": float(price)}
        return Settlement.model_validate({**facts, **amounts, "at": exchange_hours().open_of(action.day)})

    contract, ratio = parse_contract(symbol), exact(action.split)
    if contract is not None:
        strike = contract.strike / ratio
        follows = ratio > 1 and ratio == int(ratio) and strike == round(strike, 3)
        if held and follows and not adjusted:
            after = contract_of(contract.underlying, contract.expiry, contract.kind, strike).symbol
            yield leg("converted", -held, cost)
            yield leg("converted", held * ratio, cost / ratio, after)
        elif held and ratio != 1:
            yield leg("adjusted", Decimal(0), Decimal(0))
        return
    if action.dividend and held:
        yield leg("dividend", held, exact(action.dividend))
    if ratio != 1:
        whole = (held * ratio).to_integral_value(ROUND_DOWN)
        yield leg("split", whole - held, Decimal(0), ratio=action.split)
        if (fraction := held * ratio - whole) and (close := _close_before(symbol, action, market)) is not None:
            yield leg("fraction", fraction, close)


def _close_before(symbol: str, action: Action, market: MarketData) -> Decimal | None:
    """Return the last close before an action, for a share after it."""
    bars = traded_bars(market, symbol, (market.clock.session() - action.day).days + _SESSIONS_BACK)
    before = [place for place, day in enumerate(bars.dates) if day < action.day]
    return exact(float(bars.close[before[-1]])) * exact(splits_since(market, symbol, action.day)) if before else None
