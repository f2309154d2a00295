"""All accounts as one portfolio: weights, sectors, currencies, concentration, correlation and worst days, and what of
them is not known."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chordesk.models.answers import Frozen
from chordesk.models.exchanges import HOME, currency_of
from chordesk.models.money import DOLLAR
from chordesk.models.settings.running_desk import is_backtest
from chordesk.tools.decimals import rounded
from chordesk.tools.holdings.keeping import OutsideAccount, accounts
from chordesk.tools.holdings.names import ISIN
from chordesk.tools.holdings.valuing import Priced, Worth, priced, symbols_of, worths
from chordesk.tools.market.clock import clock_day, exchange_hours
from chordesk.tools.model_tools.portfolio import portfolio_get, store_of
from chordesk.tools.portfolio.holdings import listing_of
from chordesk.tools.portfolio.size_bounds import effective_bets
from chordesk.tools.prices.daily_bars import histories
from chordesk.tools.prices.price_panel import CORRELATION_SESSIONS, correlations, mean_of_pairs
from chordesk.tools.registry import Arguments, Gaps, ToolContext
from chordesk.tools.risk.exposure import underlying_of

WORST_DAYS = PAIRS = 3
CASH, FUNDS, UNKNOWN = "cash", "funds and others", "not known"


class AccountRow(Frozen):
    """An account. value: None where nothing of it is known; at_least: something of it has no value. age: sessions since
    the day of its holdings; stale: that is more than DESK_HOLDINGS_STALE_SESSIONS."""

    account: str
    source: str
    own: bool
    as_of: dt.date | None
    age: int
    stale: bool
    value: float | None
    weight: float | None
    at_least: bool
    holdings: int
    summed_rows: int | None = None


class HoldingRow(Frozen):
    """A symbol, or a name without one, over all accounts. weight: of the whole value; value: negative when short.
    missing: why it has no value; doubt: what speaks against it."""

    name: str
    symbol: str | None
    kind: str
    sector: str | None
    currency: str
    accounts: list[str]
    value: float | None
    weight: float | None
    missing: str = ""
    doubt: str = ""


class Weight(Frozen):
    name: str
    weight: float


class Pair(Frozen):
    first: str
    second: str
    correlation: float


class BadDay(Frozen):
    """A session, and what the holdings of now would have lost on it as a share of the whole."""

    day: dt.date
    change: float


class PortfolioView(Frozen):
    """All accounts together, in `currency` at the market's now. at_least: holdings without a value are not in it.

    largest, five: weights of the largest holding and of the five largest, cash aside; alike: 1 / sum of squared
    weights, how many equal holdings are as concentrated. bets: how many independent ones are as risky, by heat.
    correlation: the mean of all pairs, of `sessions` returns. covered: the weight of what has returns, which pairs and
    worst days are of.
    """

    as_of: dt.datetime
    currency: str
    value: float | None
    at_least: bool
    accounts: list[AccountRow]
    holdings: list[HoldingRow]
    sectors: list[Weight]
    currencies: list[Weight]
    largest: float | None
    five: float | None
    alike: float | None
    bets: float | None
    correlation: float | None
    pairs: list[Pair]
    worst_days: list[BadDay]
    sessions: int
    covered: float | None
    missing: list[str]


@dataclass(frozen=True, slots=True)
class _Held:
    """A position of any account, valued."""

    account: str
    name: str
    symbol: str | None  # the share that it is about
    kind: str
    currency: str
    value: float | None
    short: bool = False
    missing: str = ""
    doubt: str = ""


def portfolio_view(context: ToolContext, stale_sessions: int, extra: tuple[str, float] | None = None) -> PortfolioView:
    """Return the view of the desk's own account and of all outside ones. extra: a symbol and money that is moved from
    the desk's cash into it, to see what that would do to the whole."""
    today = clock_day(context.clock)
    with store_of(context).read() as session:
        found = accounts(session, today)
        later = len(accounts(session)) - len(found)
    own = portfolio_get(context, Arguments())["portfolio"]
    money = own.get("currency", DOLLAR)
    names = [underlying_of(row["symbol"]) for row in own["positions"]]
    known = priced(context, [*symbols_of(found), *names, *([extra[0]] if extra else [])])
    rows = [*_own(context.account, own, extra, money), *map(_outside, worths(context, found, known))]
    total = sum(one.value for one in rows if one.value is not None)
    missing = [f"{one.name}: {one.missing}" for one in rows if one.value is None]
    if later:
        which = "account is" if later == 1 else "accounts are"
        missing.append(f"{later} {which} of a later day than the market's, {today}: a market of today sees them")
    lines = _lines(context, rows, total)
    whole = total if total > 0 else None
    risk = _risk(context, lines, known, whole)
    missing += risk.pop("missing")
    return PortfolioView(
        as_of=context.clock.now(),
        currency=money,
        value=rounded(whole, 2),
        at_least=any(one.value is None for one in rows),
        accounts=_accounts(context.account, found, rows, whole, today, stale_sessions),
        holdings=lines,
        sectors=_sums((_sector(one), one.weight) for one in lines),
        currencies=_sums((one.currency, (one.value or 0.0) / whole if whole else None) for one in rows),
        **_concentration(lines),
        **risk,
        missing=missing,
    )


def _own(account: str, own: Mapping[str, Any], extra: tuple[str, float] | None, money: str) -> Iterable[_Held]:
    spent = extra[1] if extra else 0.0
    yield _Held(account, "Cash", None, "cash", money, own["cash"] - spent)
    for row in own["positions"]:
        symbol = underlying_of(row["symbol"])
        kind = "share" if symbol == row["symbol"] else "option"
        why = "" if row["marketValue"] is not None else "it has no price"
        yield _Held(
            account, row["symbol"], symbol, kind, _currency(symbol), row["marketValue"], row["quantity"] < 0, why
        )
    if extra is not None:
        yield _Held(account, extra[0], extra[0], "share", _currency(extra[0]), extra[1])


def _currency(symbol: str) -> str:
    try:
        return currency_of(symbol)
    except Exception:  # a symbol of a place that has no row
        return DOLLAR


def _outside(worth: Worth) -> _Held:
    row, traded = worth.outside.row, worth.outside.symbol
    name = traded or row.isin or row.name
    name = "Cash" if row.kind == "cash" else name
    return _Held(
        worth.outside.account, name, worth.symbol, row.kind, row.currency, worth.value, row.quantity < 0, worth.why,
        worth.doubt,
    )  # fmt: skip


def _lines(context: ToolContext, rows: Sequence[_Held], total: float) -> list[HoldingRow]:
    groups: defaultdict[tuple[str, str], list[_Held]] = defaultdict(list)
    for one in rows:
        groups[_line_of(one)].append(one)
    sectors = {one.symbol: listing_of(context, one.symbol).sector for one in rows if one.symbol and one.kind != "cash"}
    found = []
    for some in groups.values():
        name, kind = some[0].name, next((each for each in _TELLING if each in {one.kind for one in some}), some[0].kind)
        currencies = {one.currency for one in some}
        currency = currencies.pop() if len(currencies) == 1 else _currency(some[0].symbol or "")
        known = [one.value for one in some if one.value is not None]
        value = sum(known) if known else None
        found.append(
            HoldingRow(
                name=name, symbol=some[0].symbol, kind=kind, currency=currency,
                sector=sectors.get(some[0].symbol or ""),
                accounts=sorted({one.account for one in some}), value=rounded(value, 2),
                weight=None if value is None or total <= 0 else round(value / total, 6),
                missing=next((one.missing for one in some if one.value is None), ""),
                doubt=next((one.doubt for one in some if one.doubt), ""),
            )
        )  # fmt: skip
    return sorted(found, key=lambda one: (-abs(one.weight or 0.0), one.name))


_TELLING = ("fund", "crypto", "other")  # a file that does not say what a row is of calls it a share


def _line_of(one: _Held) -> tuple[str, str]:
    """Return what the rows of one holding share: its symbol or ISIN, whatever kind and currency each file calls it."""
    if one.kind == "cash":
        return one.name, f"cash {one.currency}"
    is_certain = one.symbol is not None or ISIN.fullmatch(one.name) is not None
    return one.name, "" if is_certain else one.currency


def _sector(row: HoldingRow) -> str:
    if row.kind == "cash":
        return CASH
    return row.sector or (UNKNOWN if row.kind in ("share", "option") else FUNDS)


def unknown_sectors(view: PortfolioView) -> float:
    """Return the weight of shares whose sector is not known: a limit of sectors counts them in each."""
    return sum(abs(one.weight or 0.0) for one in view.holdings if _sector(one) == UNKNOWN)


def _sums(pairs: Iterable[tuple[str, float | None]]) -> list[Weight]:
    found: defaultdict[str, float] = defaultdict(float)
    for name, weight in pairs:
        found[name] += weight or 0.0
    rows = [Weight(name=name, weight=round(weight, 6)) for name, weight in found.items() if weight]
    return sorted(rows, key=lambda one: (-abs(one.weight), one.name))


def _accounts(
    own: str, found: Sequence[OutsideAccount], rows: Sequence[_Held], whole: float | None, today: dt.date, stale: int
) -> list[AccountRow]:
    def row(account: str, source: str, as_of: dt.date | None, summed: int | None) -> AccountRow:
        some = [one for one in rows if one.account == account]
        known = [one.value for one in some if one.value is not None]
        value = sum(known) if known else None
        age = sessions_since(as_of, today) if as_of is not None else 0
        return AccountRow(
            account=account, source=source, own=account == own, as_of=as_of, age=age, stale=age > stale,
            value=rounded(value, 2), weight=None if value is None or not whole else round(value / whole, 6),
            at_least=any(one.value is None for one in some),
            holdings=sum(one.kind != "cash" for one in some), summed_rows=summed,
        )  # fmt: skip

    return [row(own, "this desk", None, None), *(row(one.name, one.source, one.as_of, one.summed) for one in found)]


def sessions_since(as_of: dt.date, today: dt.date) -> int:
    """Return how many sessions of New York there were after a day, up to today."""
    return len(exchange_hours(HOME).between(as_of + dt.timedelta(days=1), today)) if as_of < today else 0


def _concentration(lines: Sequence[HoldingRow]) -> dict[str, float | None]:
    """Return weights among what is no cash."""
    weights = sorted((abs(one.weight) for one in lines if one.weight and one.kind != "cash"), reverse=True)
    squares = sum(weight * weight for weight in weights)
    total = sum(weights)
    return {
        "largest": rounded(weights[0], 6) if weights else None,
        "five": rounded(sum(weights[:5]), 6) if weights else None,
        "alike": rounded(total * total / squares, 2) if squares else None,
    }


def _risk(context: ToolContext, lines: Sequence[HoldingRow], known: Priced, whole: float | None) -> dict[str, Any]:
    """Return what the returns of 60 sessions tell of the shares and funds held."""
    net: defaultdict[str, float] = defaultdict(float)
    for one in lines:
        if one.symbol is not None and one.kind not in ("option", "cash") and one.weight:
            net[one.symbol] += one.weight
    names = [name for name in net if name in known.returns]
    left = sorted({one.name for one in lines if one.kind != "cash" and one.weight and one.symbol not in names})
    left += sorted(name for name in (one.name for one in lines if one.kind == "option") if name not in left)
    missing = [f"correlation and worst days: {CORRELATION_SESSIONS} returns of {', '.join(left)}"] if left else []
    found: dict[str, Any] = {
        "bets": None, "correlation": None, "pairs": [], "worst_days": [], "sessions": CORRELATION_SESSIONS,
        "covered": None, "missing": missing,
    }  # fmt: skip
    if not names or whole is None:
        return found
    matrix = correlations(known.returns, names, 1.0)
    heats = np.array([abs(net[name]) * known.units.get(name, 0.0) for name in names])
    sides = np.array([1 if net[name] >= 0 else -1 for name in names])
    pairs = [(float(matrix[a, b]), names[a], names[b]) for a in range(len(names)) for b in range(a)]
    pairs.sort(key=lambda one: (-one[0], one[1], one[2]))
    return found | {
        "bets": rounded(effective_bets(heats, matrix * np.outer(sides, sides)), 2),
        "correlation": rounded(mean_of_pairs(matrix), 4),
        "pairs": [Pair(first=min(a, b), second=max(a, b), correlation=round(one, 4)) for one, a, b in pairs[:PAIRS]],
        "worst_days": _worst(context, {name: net[name] for name in names}),
        "covered": rounded(sum(abs(net[name]) for name in names), 6),
    }


def _worst(context: ToolContext, weights: Mapping[str, float]) -> list[BadDay]:
    """Return the sessions on which holdings of these weights would have lost most. A day that a name lacks is left
    out for all."""
    moves: dict[str, dict[dt.date, float]] = {}
    for history in histories(context, list(weights), Gaps(), CORRELATION_SESSIONS + 1):
        bars = history.run
        changes = bars.close[1:] / bars.close[:-1] - 1
        moves[history.symbol] = dict(zip(bars.dates[1:], changes.tolist(), strict=True))
    if not moves:
        return []
    days = set.intersection(*(set(one) for one in moves.values()))
    sums = [(sum(weights[name] * one[day] for name, one in moves.items()), day) for day in days]
    return [BadDay(day=day, change=round(change, 6)) for change, day in sorted(sums)[:WORST_DAYS] if change < 0]


MOST_RESEARCHED = 150


def researched(context: ToolContext) -> list[str]:
    return shares_elsewhere(context)[0]


def shares_elsewhere(context: ToolContext) -> tuple[list[str], list[str]]:
    """Return (shares and funds of other accounts whose price the market knows now, the largest first; names of what has
    none, or is too much); nothing in a backtest, and where other accounts are not used."""
    if context.settings.book == "off" or is_backtest(context.account) or context.store is None:
        return [], []
    with store_of(context).read() as session:
        found = accounts(session, clock_day(context.clock))
    known = priced(context, symbols_of(found))
    sizes: dict[str, float] = {}
    left: set[str] = set()
    for one in worths(context, found, known):
        if one.outside.row.kind == "cash":
            continue
        if one.symbol is not None and one.symbol in known.closes:
            sizes[one.symbol] = sizes.get(one.symbol, 0.0) + abs(one.value or 0.0)
        else:
            left.add(one.symbol or one.outside.row.name)
    ranked = sorted(sizes, key=lambda name: (-sizes[name], name))
    return ranked[:MOST_RESEARCHED], [*sorted(left), *ranked[MOST_RESEARCHED:]]


def weakest(context: ToolContext, count: int, stale_sessions: int) -> tuple[list[str], list[str]]:
    """Return (shares of all accounts whose price rose least over 60 sessions, the weakest first; names of shares and
    funds of which that is not known)."""
    view = portfolio_view(context, stale_sessions)
    names = list(dict.fromkeys(one.symbol for one in view.holdings if one.symbol and one.kind != "cash"))
    known = priced(context, names)
    moves = {name: float(known.returns[name].sum()) for name in names if name in known.returns}
    unknown = sorted({one.name for one in view.holdings if one.kind != "cash" and one.symbol not in moves})
    return sorted(moves, key=lambda name: (moves[name], name))[:count], unknown
