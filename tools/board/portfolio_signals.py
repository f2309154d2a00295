"""Signals of the account's holdings: their heat, how much of it is the same bet, and what is left for the next one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chordesk.models.board import MAX_FINDINGS, Harvest
from chordesk.models.contracts import multiplier_of, parse_contract
from chordesk.models.tables.board import SignalFinding
from chordesk.tools.board.context import Finding, HarvestContext, asleep, listed, named
from chordesk.tools.event_positions import EVENT_BANKROLL, KELLY_FRACTION, event_ledger
from chordesk.tools.market.protocol import Floats
from chordesk.tools.model_tools.portfolio import portfolio_get
from chordesk.tools.model_tools.signals import technical_rows
from chordesk.tools.portfolio_sizing import contract_heat, correlated_heat, effective_bets, share_heat
from chordesk.tools.position_sizing import kelly_bet
from chordesk.tools.price_panel import CORRELATION_SESSIONS, correlations, log_returns, mean_of_pairs
from chordesk.tools.registry import Arguments, Gaps, ToolContext
from chordesk.tools.risk import underlying_of


@dataclass(frozen=True, slots=True)
class HeldHeat:
    """A position. symbol: the share that it is about; heat: share of equity; side: 1 where it gains when the share
    rises, else -1; value: in account currency, positive."""

    symbol: str
    heat: float
    side: int
    value: float


@dataclass(frozen=True)
class HeatBook:
    """Holdings with a known heat. equity: None when it is not known. missing: positions without a price or an ATR;
    assumed: symbols without 60 returns, which count as moving with all others."""

    equity: float | None
    rows: tuple[HeldHeat, ...]
    missing: tuple[str, ...]
    assumed: tuple[str, ...]
    returns: dict[str, Floats]
    units: dict[str, float]

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


def heat_book(tool: ToolContext, others: Sequence[str]) -> HeatBook:
    """Return the holdings of the account. others: further symbols whose returns and units are needed.

    units: heat of a position in shares worth all equity, 2 * ATR14 / price, by symbol.
    """
    portfolio: dict[str, Any] = portfolio_get(tool, Arguments())["portfolio"]
    equity, positions = portfolio["equity"], portfolio["positions"]
    names = list(dict.fromkeys([*(underlying_of(row["symbol"]) for row in positions), *others]))
    technicals = {row["symbol"]: row for row in technical_rows(tool, names, Gaps())}
    units = {name: share_heat(1.0, row["atr14"], row["close"], 1.0) for name, row in technicals.items() if row["atr14"]}
    rows, missing = [], []
    for row in positions:
        found = _heat_of(row, equity, units, technicals) if equity is not None and equity > 0 else None
        if found is None:
            missing.append(row["symbol"])
        else:
            rows.append(found)
    returns = log_returns(tool, names)
    assumed = sorted({row.symbol for row in rows} - returns.keys())
    return HeatBook(equity, tuple(rows), tuple(missing), tuple(assumed), returns, units)


def _heat_of(
    row: dict[str, Any], equity: float, units: dict[str, float], technicals: dict[str, Any]
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
    shares = abs(quantity) * multiplier_of(row["symbol"]) * technicals[symbol]["close"]
    return HeldHeat(symbol, shares * units[symbol] / equity, -1 if contract.kind == "call" else 1, abs(value))


def room(book: HeatBook, with_new: Floats, unit: float, limit: float) -> float:
    """Return the largest share of equity w that one more position may have while the correlated heat stays within a
    limit: h'Ch + 2 w u (c'h) + (w u)^2 = limit^2, u its heat at w = 1, c its correlation with those held."""
    over = book.correlated**2 - limit**2
    if over >= 0:
        return 0.0
    along = float(with_new @ book.heats) if len(book.rows) else 0.0
    return (-along + math.sqrt(along * along - over)) / unit


BELIEF, EVEN = 0.55, 0.5  # of the example of a stake
TOGETHER = 0.6  # mean correlation from which on holdings are one bet
_BOOKS = "account {account}, {market} daily bars"
_STAKE = "a belief of {belief:.0%} at a price of {price:.2f} is worth at most {stake:.1%} of equity"
_KNOWN = "share of the holdings of which the heat is known; it sizes bets and forecasts nothing"
_BOOK = Finding(
    "Heat{least} {heat:.1%} of equity over {holdings} holdings, {correlatedHeat:.1%} together ({effectiveBets:.1f} "
    "effective bets), {heatLeft:.1%} left of {heatLimit:.1%}; " + _STAKE,
    _KNOWN,
    _BOOKS,
)
_EMPTY = Finding(
    "No holding with a known heat, {heatLeft:.1%} of equity left of {heatLimit:.1%}; " + _STAKE, _KNOWN, _BOOKS
)
_TOGETHER = Finding(
    "{holdings} holdings move as {effectiveBets:.1f} bets (mean correlation {correlation:.2f} over {sessions} "
    "sessions): one more of the same kind spreads nothing",
    "the mean correlation itself; it warns of one bet and forecasts nothing",
    _BOOKS,
)
_ROOM = Finding(
    "{symbol}: correlation {correlation:.2f} with the holdings by heat; at most {room:.1%} of equity more, by "
    "{boundBy}",
    "1 where the correlation with every holding is known, else the share of holdings of which it is",
    _BOOKS,
)
_EVENTS = Finding(
    "{open} open event positions have {staked:.1%} of a bankroll of {bankroll:,.0f} in play money at stake, the "
    "largest {largest:.1%}",
    "1: the ledger is the desk's own; it sizes bets and forecasts nothing",
    _BOOKS,
)


def holding_signals(context: HarvestContext) -> Harvest:
    """Return the account's heat, a warning if its holdings are one bet, and the room left for the questions' symbols,
    least first. If a holding has no price or ATR, the heat is stated as a minimum."""
    tool = context.tool
    if tool.store is None:
        return asleep("not available: configure DESK_DATABASE_URL")
    book = heat_book(tool, context.symbols)
    if book.equity is None or book.equity <= 0:
        return asleep(f"no equity to measure heat by: {_why(book)}")
    findings = [_whole(context, book)]
    if (warning := _moving_together(context, book)) is not None:
        findings.append(warning)
    if (events := _event_stakes(context)) is not None:
        findings.append(events)
    if book.rows:
        findings += sorted(_rooms(context, book), key=lambda one: (one.data["room"], one.subjects))
    return Harvest(findings=tuple(findings[:MAX_FINDINGS]))


def _why(book: HeatBook) -> str:
    return f"it is {book.equity:.2f}" if book.equity is not None else f"no price of {listed(book.missing)}"


def _left(context: HarvestContext, book: HeatBook) -> float:
    return max(0.0, context.tool.settings.max_drawdown - book.correlated)


def _whole(context: HarvestContext, book: HeatBook) -> SignalFinding:
    settings, left = context.tool.settings, _left(context, book)
    bet = kelly_bet(BELIEF, EVEN, None, KELLY_FRACTION)
    known = len(book.rows) / (len(book.rows) + len(book.missing)) if book.rows or book.missing else 1.0
    data: dict[str, Any] = {
        "holdings": len(book.rows),
        "heat": round(book.heat, 4),
        "correlatedHeat": round(book.correlated, 4),
        "effectiveBets": round(book.bets or 0.0, 2),
        "heatLimit": settings.max_drawdown,
        "heatLeft": round(left, 4),
        "belief": BELIEF,
        "price": EVEN,
        "kellyFraction": KELLY_FRACTION,
        "stake": round(min(bet.stake if bet is not None else 0.0, left), 4),
        "missing": named(book.missing),
        "assumedToMoveTogether": named(book.assumed),
    }
    kind = _BOOK if book.rows else _EMPTY
    return kind.of(context, data, known, least=" at least" if book.missing else "")


def _moving_together(context: HarvestContext, book: HeatBook) -> SignalFinding | None:
    """Return a warning where the mean correlation of the holdings is high; holdings without returns are left out."""
    known = [place for place, row in enumerate(book.rows) if row.symbol in book.returns]
    mean = mean_of_pairs(book.correlation[known][:, known]) if known else None
    if mean is None or mean < TOGETHER or book.bets is None:
        return None
    names = tuple(dict.fromkeys(row.symbol for row in book.rows))
    data = {
        "holdings": len(book.rows),
        "effectiveBets": round(book.bets, 2),
        "correlation": round(mean, 4),
        "sessions": CORRELATION_SESSIONS,
        "missing": named(book.assumed),
    }
    return _TOGETHER.of(context, data, mean, names)


def _event_stakes(context: HarvestContext) -> SignalFinding | None:
    """Return the play money at stake on event markets; None without any, and in a replay, which has no such markets."""
    tool = context.tool
    if tool.store is None or tool.clock.day is not None:
        return None
    with tool.store.read() as session:
        ledger = event_ledger(session, tool.account, EVENT_BANKROLL, only_open=True)
    if not ledger.positions or ledger.bankroll <= 0:
        return None
    labels = {question.id: question.label for question in context.questions}
    data: dict[str, Any] = {
        "open": len(ledger.positions),
        "staked": round(contract_heat(ledger.staked, ledger.bankroll), 4),
        "bankroll": round(ledger.bankroll, 2),
        "largest": round(max(held.position.cost for held in ledger.positions) / ledger.bankroll, 4),
        "onTheBoard": [labels[held.question.id] for held in ledger.positions if held.question.id in labels],
    }
    return _EVENTS.of(context, data, 1.0, tuple(dict.fromkeys(data["onTheBoard"])))


def _rooms(context: HarvestContext, book: HeatBook) -> list[SignalFinding]:
    settings, found = context.tool.settings, []
    missing = [symbol for symbol in context.symbols if symbol not in book.units or symbol not in book.returns]
    for symbol in context.symbols:
        with_new = book.with_new(symbol)
        if with_new is None or symbol not in book.units:
            continue
        held = sum(row.value for row in book.rows if row.symbol == symbol) / (book.equity or 1.0)
        by_heat = room(book, with_new, book.units[symbol], settings.max_drawdown)
        by_share = max(0.0, settings.max_symbol_share - held)
        data = {
            "symbol": symbol,
            "correlation": round(float(with_new @ book.heats) / book.heat if book.heat else 0.0, 4),
            "room": round(min(by_heat, by_share), 4),
            "boundBy": "heat" if by_heat < by_share else "the limit of one symbol",
            "heatAtFullEquity": round(book.units[symbol], 4),
            "share": round(held, 4),
            "missing": named(missing),
        }
        found.append(_ROOM.of(context, data, 1 - len(book.assumed) / len(book.rows), (symbol,)))
    return found
