"""The bounds of a position's size, worked out before a trader decides, and the stress losses of the book. Pure: nothing
here knows a market or a database."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal

import numpy as np

from chordesk.models.duties import duty_share
from chordesk.models.errors import UsageError
from chordesk.models.market import multiplier_of, parse_contract
from chordesk.models.money import DOLLAR, coded
from chordesk.models.plans import HeldOverlap, SizeBound, Sizing, Stress
from chordesk.models.settings import Settings
from chordesk.models.thesis import Pooled
from chordesk.tools.decimals import exact, money, rounded
from chordesk.tools.market.price_steps import lot_of
from chordesk.tools.market.protocol import Floats
from chordesk.tools.model_tools.portfolio import portfolio_get, rates_by_symbol
from chordesk.tools.model_tools.signals import technical_rows
from chordesk.tools.prices.price_figures import SESSIONS_A_YEAR
from chordesk.tools.prices.price_panel import CORRELATION_SESSIONS, beta, correlations, ledoit_wolf, log_returns
from chordesk.tools.registry import Arguments, Gaps, ToolContext
from chordesk.tools.risk.amounts import largest_sector
from chordesk.tools.risk.exposure import round_trip, underlying_of
from chordesk.tools.scoring.statistics import probability

ATRS_AT_RISK = 2


def share_heat(value: float, atr14: float, price: float, equity: float) -> float:
    """Return value * 2 * ATR14 / price / equity of a holding of shares; a short one has heat as a long one has."""
    return abs(value) * ATRS_AT_RISK * atr14 / _positive(price, "price") / _positive(equity, "equity")


def contract_heat(stake: float, equity: float) -> float:
    """Return the stake over equity: a contract can lose all that was paid for it."""
    return stake / _positive(equity, "equity")


def correlated_heat(heats: Floats, correlation: Floats) -> float:
    """Return sqrt(h' C h) for n heats and their n x n correlation: their sum when all move as one."""
    return math.sqrt(max(0.0, float(heats @ correlation @ heats)))


def effective_bets(heats: Floats, correlation: Floats) -> float | None:
    """Return (sum h)^2 / h' C h, the number of equal independent bets of that spread; None without heat."""
    spread = float(heats @ correlation @ heats)
    return float(heats.sum()) ** 2 / spread if spread > 0 else None


def _positive(value: float, name: str) -> float:
    if not value > 0:
        raise UsageError(f"{name} {value:g} is not above 0", remedy=f"heat needs the {name}; leave it out as missing")
    return value


@dataclass(frozen=True, slots=True)
class HeldHeat:
    """A position."""

    symbol: str  # the share that it is about
    heat: float  # share of equity
    side: int  # 1 where it gains when the share rises, else -1
    value: float  # in account currency, positive


@dataclass(frozen=True)
class HeatBook:
    """Holdings with a known heat."""

    equity: float | None  # None when it is not known
    rows: tuple[HeldHeat, ...]
    missing: tuple[str, ...]  # positions without a price or an ATR
    assumed: tuple[str, ...]  # symbols without 60 returns, which count as moving with all others
    returns: dict[str, Floats]
    units: dict[str, float]  # heat of a position in shares worth all equity, 2 * ATR14 / price, by symbol
    closes: dict[str, float] = field(default_factory=dict)  # last ones, likewise
    traded: dict[str, float] = field(default_factory=dict)  # money of a median day, likewise
    # of closes and traded that are not in the account's currency: that and its rate, None where it is not known
    rates: dict[str, tuple[str, float | None]] = field(default_factory=dict)

    def rate(self, symbol: str) -> float | None:
        """Return what one unit of the currency of a symbol's price is worth in the account's."""
        return self.rates[symbol][1] if symbol in self.rates else 1.0

    @cached_property
    def heats(self) -> Floats:
        return np.array([row.heat for row in self.rows])

    @cached_property
    def correlation(self) -> Floats:
        """Correlation of the positions' gains: that of their shares, turned round for opposite sides."""
        sides = np.array([row.side for row in self.rows])
        names = [row.symbol for row in self.rows]
        return correlations(self.returns, names, 1.0) * np.outer(sides, sides)

    @property
    def heat(self) -> float:
        return float(self.heats.sum())

    @property
    def correlated(self) -> float:
        return correlated_heat(self.heats, self.correlation) if self.rows else 0.0

    @property
    def bets(self) -> float | None:
        return effective_bets(self.heats, self.correlation) if self.rows else None

    def with_new(self, symbol: str) -> Floats | None:
        """Return the correlation of each position with a long one in a symbol; None without returns of that."""
        if symbol not in self.returns:
            return None
        names = [*(row.symbol for row in self.rows), symbol]
        sides = np.array([row.side for row in self.rows])
        return np.asarray(correlations(self.returns, names, 1.0)[-1, :-1] * sides, dtype=np.float64)

    def with_position(self, symbol: str, value: float) -> HeatBook:
        """Return the book with so much money more in shares of a symbol, negative when short; as it is where their heat
        is not known."""
        if symbol not in self.units or not self.equity:
            return self
        heat = abs(value) * self.units[symbol] / self.equity
        return replace(self, rows=(*self.rows, HeldHeat(symbol, heat, 1 if value > 0 else -1, abs(value))))


def heat_book(tool: ToolContext, others: Sequence[str]) -> HeatBook:
    """Return the holdings of the account. others: further symbols whose returns and units are needed."""
    portfolio: dict[str, Any] = portfolio_get(tool, Arguments())["portfolio"]
    equity, positions = portfolio["equity"], portfolio["positions"]
    names = list(dict.fromkeys([*(underlying_of(row["symbol"]) for row in positions), *others]))
    technicals = {row["symbol"]: row for row in technical_rows(tool, names, Gaps())}
    units = {name: share_heat(1.0, row["atr14"], row["close"], 1.0) for name, row in technicals.items() if row["atr14"]}
    rates = rates_by_symbol(tool, names)
    rows, missing = [], []
    for row in positions:
        found = _heat_of(row, equity, units, technicals, rates) if equity is not None and equity > 0 else None
        if found is None:
            missing.append(row["symbol"])
        else:
            rows.append(found)
    returns = log_returns(tool, names)
    assumed = sorted({row.symbol for row in rows} - returns.keys())
    closes = {name: row["close"] for name, row in technicals.items()}
    traded = {name: row["traded20"] for name, row in technicals.items() if row["traded20"]}
    return HeatBook(equity, tuple(rows), tuple(missing), tuple(assumed), returns, units, closes, traded, rates)


def _heat_of(
    row: dict[str, Any],
    equity: float,
    units: dict[str, float],
    technicals: dict[str, Any],
    rates: Mapping[str, tuple[str, float | None]],
) -> HeldHeat | None:
    """Return the heat of a position; a bought contract can lose its value, a written one counts as its shares."""
    symbol, value, quantity = underlying_of(row["symbol"]), row["marketValue"], row["quantity"]
    contract = parse_contract(row["symbol"])
    if value is None:
        return None
    if contract is not None and quantity > 0:
        return HeldHeat(symbol, contract_heat(value, equity), 1 if contract.kind == "call" else -1, value)
    if symbol not in units:
        return None
    if contract is None:
        return HeldHeat(symbol, abs(value) * units[symbol] / equity, 1 if quantity > 0 else -1, abs(value))
    rate = rates[symbol][1] if symbol in rates else 1.0
    if rate is None:
        return None
    shares = abs(quantity) * multiplier_of(row["symbol"]) * technicals[symbol]["close"] * rate
    return HeldHeat(symbol, shares * units[symbol] / equity, -1 if contract.kind == "call" else 1, abs(value))


def room(book: HeatBook, with_new: Floats, unit: float, limit: float) -> float:
    """Return the largest share of equity w that one more position may have while the correlated heat stays within a
    limit: h'Ch + 2 w u (c'h) + (w u)^2 = limit^2, u its heat at w = 1, c its correlation with those held."""
    over = book.correlated**2 - limit**2
    if over >= 0:
        return 0.0
    along = float(with_new @ book.heats) if len(book.rows) else 0.0
    return (-along + math.sqrt(along * along - over)) / unit


FRACTION = 0.25


@dataclass(frozen=True, slots=True)
class KellyBet:
    """A side to buy."""

    side: Literal["YES", "NO"]
    probability: float  # that it wins
    price: float  # effective, below 1
    # full, stake: shares of the bankroll to pay, by full Kelly and by the fraction of it
    full: float
    stake: float

    @property
    def edge(self) -> float:
        return self.probability - self.price


def full_kelly(belief: float, price: float) -> float:
    """Return the share of the bankroll that makes it grow fastest, (p - q) / (1 - q); 0 without an edge."""
    probability(belief)
    if not price >= 0:
        raise UsageError(f"price {price:g} is not a price", remedy="give what a contract costs, 0 or more")
    return (belief - price) / (1 - price) if belief > price and price < 1 else 0.0


def kelly_bet(
    belief: float, yes_price: float | None, no_price: float | None, fraction: float = FRACTION
) -> KellyBet | None:
    """Return the bet for a belief in YES at effective prices of both sides; None without an edge on either. A side that
    is not for sale has no price. Where both have an edge, it is the one with the larger stake."""
    checked_fraction(fraction)
    bets: list[KellyBet] = []
    sides: tuple[tuple[Literal["YES", "NO"], float, float | None], ...] = (
        ("YES", belief, yes_price),
        ("NO", 1 - belief, no_price),
    )
    for side, wins, price in sides:
        full = 0.0 if price is None else full_kelly(wins, price)
        if price is not None and full > 0:
            bets.append(KellyBet(side, wins, price, full, fraction * full))
    return max(bets, key=lambda bet: bet.full, default=None)


def checked_fraction(fraction: float) -> float:
    """Return the fraction of full Kelly; raise UsageError unless it is above 0 and at most 1."""
    if not 0 < fraction <= 1:
        raise UsageError(f"fraction {fraction:g} of Kelly is not above 0 and at most 1", remedy="0.25 is usual")
    return fraction


STOP_ATRS = 2  # distance of the stop where no thesis names a level
NOISE_ATRS = 1  # a stop that is nearer than this is reached by chance: the size counts on this distance
GAP_ATRS, MARKET_FALL = 3, 0.10  # of the stress cases
MOST_OVERLAPS = 3

EVEN = 0.5
BY_RISK = EQUAL_RISK, OVERLAP, KELLY, HEAT = "equal risk", "overlap", "Kelly", "heat"
SYMBOL_SHARE, SECTOR_SHARE = "share of one symbol", "share of one sector"


# Returns bounds of one more long position in a symbol. They can only make a size smaller: the strictest holds.
Further = Callable[[str, Pooled, "Standing"], Sequence[SizeBound]]


@dataclass(frozen=True, slots=True)
class Standing:
    """An account at one moment, for its next position."""

    heat: HeatBook
    limits: Settings
    free_cash: Decimal | None  # that no open order needs
    # money by underlying, open orders included, None when a position has no price
    exposures: Mapping[str, Decimal] | None
    sectors: Mapping[str, str | None]
    companies: Mapping[str, str]  # of a symbol, a key that other listings of its company share
    orders_left: int  # of the day
    market: Floats | None = None  # mean daily returns of so many names, None without any
    market_names: int = 0
    reports: Mapping[str, dt.date] = field(default_factory=dict)  # days of the next results, where they are known
    further: tuple[Further, ...] = ()  # bounds that others set beside those of the account
    currency: str = DOLLAR  # of the account
    kinds: Mapping[str, str] = field(default_factory=dict)  # of listings: a fund pays other duties than a share
    lots: Mapping[str, Decimal] = field(default_factory=dict)  # of listings, where their symbols tell too little

    def money(self, amount: float | Decimal) -> str:
        """Return an amount of the account as text."""
        return money(amount, self.currency)

    def after(self, symbol: str, money: float) -> Standing:
        """Return the standing once so much more of a symbol is bought, negative when sold short."""
        cost = exact(abs(money))
        exposures = None
        if self.exposures is not None:
            exposures = {**self.exposures, symbol: self.exposures.get(symbol, Decimal(0)) + cost}
        free = None if self.free_cash is None else self.free_cash - cost
        book = self.heat.with_position(symbol, money)
        return replace(self, heat=book, exposures=exposures, free_cash=free, orders_left=self.orders_left - 1)

    @property
    def held(self) -> set[str]:
        return {row.symbol for row in self.heat.rows} | {underlying_of(name) for name in self.heat.missing}

    def company(self, symbol: str) -> str:
        return self.companies.get(symbol, symbol)


def own_bounds(symbol: str, pooled: Pooled, now: Standing) -> list[SizeBound]:
    """Return the bounds that a standing itself has for one more long position in a symbol."""
    _, _, _, distance = _levels(symbol, pooled, now)
    return [*_by_risk(symbol, pooled, now, distance), *_by_limits(symbol, now)]


def _levels(symbol: str, pooled: Pooled, now: Standing) -> tuple[float | None, float | None, str | None, float | None]:
    """Return (ATR14, stop, its source, the distance to it that a size counts on), as far as they are known."""
    price, unit = now.heat.closes.get(symbol), now.heat.units.get(symbol)
    atr = None if price is None or unit is None else unit * price / STOP_ATRS
    stop, source = _stop(pooled, price, atr)
    distance = None if price is None or stop is None else (price - stop) / price
    if distance is not None and unit is not None:
        distance = max(distance, unit * NOISE_ATRS / STOP_ATRS)
    return atr, stop, source, distance


def sizing(symbol: str, pooled: Pooled, now: Standing) -> Sizing:
    """Return the bounds of one more long position in a symbol, the strictest of which holds.

    Equal risk: DESK_POSITION_RISK, a share of equity, over the distance to the stop. Overlap: the same divided by
    sqrt(1 + sum of r h / DESK_POSITION_RISK) over holdings of heat h and positive correlation r: n bets of equal risk
    and correlation r are together as wide as n independent ones of 1 / sqrt(1 + (n - 1) r) each. Kelly: a quarter of
    2 p - 1 at risk, p the pooled probability, which its own doubt has drawn towards the base rate already. To beat the
    benchmark says nothing of how far, so that a win counts as much as a loss.
    """
    price, unit, equity = now.heat.closes.get(symbol), now.heat.units.get(symbol), now.heat.equity
    atr, stop, source, _ = _levels(symbol, pooled, now)
    own = own_bounds(symbol, pooled, now)
    bounds = [*own, *(bound for each in now.further for bound in each(symbol, pooled, now) if bound.most is not None)]
    # Further bounds stand beside those of the account: where none of these is known, nothing is opened by the others.
    known = [one for one in bounds if one.most is not None] if any(one.most is not None for one in own) else []
    currency, rate = now.heat.rates.get(symbol, (None, 1.0))
    counted = price is not None and equity and rate is not None
    held = min(known, key=lambda one: one.most or 0.0, default=None) if counted else None
    most = held.most if held is not None else None
    share = most / equity if most is not None and equity else 0.0
    sector = now.sectors.get(symbol)
    missing = [f"{one.rule}: {one.why}" for one in bounds if one.most is None]
    if price is None:
        missing.append(f"price: no close of {symbol} of the latest session")
    if rate is None:
        missing.append(f"rate: none of {currency} into the account's currency is known")
    days = _days_to_trade(symbol, most, now)
    if most and days is None:
        missing.append(f"days to trade: no volume of {symbol} over 20 sessions")
    own_beta, kind = _beta(now, symbol), now.kinds.get(symbol, "share")
    return Sizing(
        symbol=symbol,
        company=now.company(symbol),
        price=rounded(price),
        atr14=rounded(atr),
        stop=rounded(stop),
        stop_source=source,
        bounds=bounds,
        bound=held.rule if held is not None else None,
        most=most,
        volatility=rounded(_added_volatility(symbol, share, now)),
        beta=rounded(None if own_beta is None else own_beta * share),
        sector=sector,
        sector_share=_sector_share(symbol, most, now),
        heat=rounded(None if unit is None else unit * share),
        overlap=_overlaps(symbol, now),
        sessions=CORRELATION_SESSIONS if symbol in now.heat.returns else 0,
        days_to_trade=days,
        round_trip=None
        if price is None or rate is None
        else round(round_trip(symbol, price * rate, now.limits, kind), 6),
        next_report=now.reports.get(symbol),
        missing=missing,
        currency=currency,
        rate=rate if currency is not None else None,
        lot=float(now.lots.get(symbol) or lot_of(symbol)),
    )


def _days_to_trade(symbol: str, money: float | None, now: Standing) -> float | None:
    """Return in how many sessions so much money fills where a fill may be DESK_PAPER_VOLUME_SHARE of the volume: of a
    median day, since a mean is that of its few large ones. None without money or a volume."""
    traded, rate = now.heat.traded.get(symbol), now.heat.rate(symbol)
    return round(money / (traded * rate * now.limits.paper_volume_share), 2) if money and traded and rate else None


def _stop(pooled: Pooled, price: float | None, atr: float | None) -> tuple[float | None, str | None]:
    if price is None:
        return None, None
    if pooled.invalidation_price is not None and pooled.invalidation_price < price:
        return pooled.invalidation_price, pooled.invalidation_source
    if atr is None or STOP_ATRS * atr >= price:
        return None, None
    return price - STOP_ATRS * atr, f"{STOP_ATRS} ATR14 below the last close"


def _by_risk(symbol: str, pooled: Pooled, now: Standing, distance: float | None) -> list[SizeBound]:
    equity, unit = now.heat.equity, now.heat.units.get(symbol)
    if not equity or equity <= 0:
        why = "the account's equity is not known"
        return [SizeBound(rule=rule, most=None, why=why) for rule in (EQUAL_RISK, OVERLAP, KELLY, HEAT)]
    lacks = f"no ATR14 and no invalidation of {symbol}: the distance to its stop is not known"
    found = []
    if distance is None:
        found += [SizeBound(rule=rule, most=None, why=lacks) for rule in (EQUAL_RISK, OVERLAP, KELLY)]
    else:
        risk = now.limits.position_risk
        equal = risk * equity / distance
        why = f"{risk:.2%} of equity over {distance:.2%} to the stop"
        found.append(_bound(EQUAL_RISK, equal, why))
        pressed = _pressed(symbol, now)
        why = f"{why}, divided by {pressed:.2f} for holdings that move with it"
        found.append(_bound(OVERLAP, equal / pressed, why))
        found.append(_kelly(pooled, equity, distance))
    if unit is None:
        return [*found, SizeBound(rule=HEAT, most=None, why=f"no ATR14 of {symbol}")]
    left = room(now.heat, _with_new(symbol, now), unit, now.limits.max_drawdown)
    why = f"correlated heat of all at most {now.limits.max_drawdown:.0%} of equity"
    if now.heat.missing:
        why += f"; that of {', '.join(now.heat.missing)} is not known"
    return [*found, _bound(HEAT, left * equity, why)]


def _bound(rule: str, most: float | Decimal, why: str) -> SizeBound:
    return SizeBound(rule=rule, most=math.floor(max(float(most), 0.0) * 100) / 100, why=why)


def _kelly(pooled: Pooled, equity: float, distance: float) -> SizeBound:
    if pooled.probability is None:
        return SizeBound(rule=KELLY, most=None, why="no pooled probability")
    stake = FRACTION * full_kelly(pooled.probability, EVEN)
    why = f"a quarter of Kelly at {pooled.probability:.3f}, over {distance:.2%} to the stop"
    return _bound(KELLY, stake * equity / distance, why)


def _with_new(symbol: str, now: Standing) -> Floats:
    """Return the correlation of each holding's gain with a long position; 1 where it is not known."""
    found = now.heat.with_new(symbol)
    return found if found is not None else np.ones(len(now.heat.rows))


def _pressed(symbol: str, now: Standing) -> float:
    heats = now.heat.heats
    along = float(np.maximum(_with_new(symbol, now), 0.0) @ heats) if len(heats) else 0.0
    return math.sqrt(1 + along / now.limits.position_risk)


def _whole(amount: Decimal, now: Standing) -> str:
    return coded(f"{float(amount):,.0f}", now.currency)


def _by_limits(symbol: str, now: Standing) -> list[SizeBound]:
    """Return the room under each limit of the risk rules; other listings of its company count as the symbol."""
    limits, equity = now.limits, now.heat.equity
    found = [_bound("largest order", limits.max_order_notional, "DESK_MAX_ORDER_NOTIONAL")]
    if now.orders_left <= 0:
        found.append(_bound("orders of the day", 0.0, f"DESK_MAX_TRADES_PER_DAY={limits.max_trades_per_day}"))
    if now.free_cash is None:
        found.append(SizeBound(rule="buying power", most=None, why="free cash is not known"))
    else:
        per = 1 + limits.slippage_bps / 10_000 + float(duty_share(symbol, now.kinds.get(symbol, "share"), "buy"))
        found.append(_bound("buying power", float(now.free_cash) / per, "cash that no open order needs"))
    if now.exposures is None or not equity or equity <= 0:
        rules = (SYMBOL_SHARE, "money in one symbol", "money in all", SECTOR_SHARE)
        return [*found, *(SizeBound(rule=rule, most=None, why="a position has no price") for rule in rules)]
    total, worth = exact(equity), now.exposures
    own = sum((money for name, money in worth.items() if now.company(name) == now.company(symbol)), Decimal(0))
    gross = sum(worth.values(), Decimal(0))
    share = exact(limits.max_symbol_share) * total - own
    found += [
        _bound(
            SYMBOL_SHARE,
            share,
            f"{limits.max_symbol_share:.0%} of equity, {_whole(own, now)} are held",
        ),
        _bound("money in one symbol", exact(limits.max_symbol_notional) - own, "DESK_MAX_SYMBOL_NOTIONAL"),
        _bound("money in all", exact(limits.max_gross_notional) - gross, "DESK_MAX_GROSS_NOTIONAL"),
    ]
    if limits.max_sector_share < 1:
        named, exposure = largest_sector(symbol, {symbol: Decimal(0), **worth}, now.sectors)
        why = f"{limits.max_sector_share:.0%} of equity in {named}, {_whole(exposure, now)} are held"
        found.append(_bound(SECTOR_SHARE, exact(limits.max_sector_share) * total - exposure, why))
    return found


def _sector_share(symbol: str, most: float | None, now: Standing) -> float | None:
    sector, equity = now.sectors.get(symbol), now.heat.equity
    if sector is None or now.exposures is None or not equity:
        return None
    held = sum(float(money) for name, money in now.exposures.items() if now.sectors.get(name) == sector)
    return round((held + (most or 0.0)) / equity, 4)


def _overlaps(symbol: str, now: Standing) -> list[HeldOverlap]:
    """Return what a long position shares with holdings: other listings of its company first, then the most
    correlated."""
    with_new = _with_new(symbol, now)
    known = now.heat.returns
    found: dict[str, HeldOverlap] = {}
    for place, row in enumerate(now.heat.rows):
        both = row.symbol in known and symbol in known
        same = now.company(row.symbol) == now.company(symbol)
        correlation = round(float(with_new[place]), 4) if both else None
        found[row.symbol] = HeldOverlap(symbol=row.symbol, correlation=correlation, same_company=same)
    ranked = sorted(found.values(), key=lambda one: (not one.same_company, -(one.correlation or 0.0), one.symbol))
    return ranked[:MOST_OVERLAPS]


def _weights(book: HeatBook) -> dict[str, float]:
    """Return the holdings as shares of equity in their symbols, negative when short. A contract counts as the shares of
    its heat."""
    found: dict[str, float] = {}
    for row in book.rows:
        if row.symbol in book.units:
            found[row.symbol] = found.get(row.symbol, 0.0) + row.side * row.heat / book.units[row.symbol]
    return found


def _added_volatility(symbol: str, share: float, now: Standing) -> float | None:
    """Return by how much a position of so much of equity changes the volatility of a year of the holdings with
    returns."""
    returns = now.heat.returns
    if symbol not in returns or not share:
        return None
    weights = {name: weight for name, weight in _weights(now.heat).items() if name in returns}
    names = list(dict.fromkeys([*weights, symbol]))
    held = np.array([weights.get(name, 0.0) for name in names])
    more = held + share * np.array([float(name == symbol) for name in names])
    spread = ledoit_wolf(np.array([returns[name] for name in names]))
    before, after = (math.sqrt(max(float(one @ spread @ one), 0.0)) for one in (held, more))
    return (after - before) * math.sqrt(SESSIONS_A_YEAR)


def _beta(now: Standing, symbol: str) -> float | None:
    own = now.heat.returns.get(symbol)
    return None if own is None or now.market is None else beta(own, now.market)


def stress(now: Standing) -> Stress:
    """Return the stress losses of the holdings. One without returns, ATR or price is missing, and counts in none."""
    book, weights = now.heat, _weights(now.heat)
    known = {name: weight for name, weight in weights.items() if name in book.returns}
    missing = [f"{name}: no price or ATR14" for name in book.missing]
    missing += [f"{name}: fewer than {CORRELATION_SESSIONS} returns" for name in weights if name not in known]
    days = sum((weight * np.expm1(book.returns[name]) for name, weight in known.items()), np.zeros(1))
    betas = {name: _beta(now, name) for name in known}
    if now.market is None:
        missing.append("beta: no name of the universe has its returns")
    fall = sum(weight * (betas[name] or 0.0) for name, weight in known.items())
    gap = sum(row.heat for row in book.rows) * GAP_ATRS / STOP_ATRS
    return Stress(
        worst_day=rounded(float(min(days.min(), 0.0))) if known else None,
        market_fall=rounded(-MARKET_FALL * fall) if known and now.market is not None else None,
        gap=rounded(-gap) if book.rows else None,
        sessions=CORRELATION_SESSIONS,
        names=now.market_names,
        missing=missing,
    )
