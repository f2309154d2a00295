"""The subjects of turns: the data that a role's question carries, and the functions that build them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from models.settings import Settings


class Thesis(TypedDict):
    """The reason for which one lens put a symbol forward."""

    lens: str
    confidence: str
    thesis: str


class JudgedSymbol(TypedDict):
    """One candidate's verdict as the trader reads it; fields as in `models.research.VerdictResult`."""

    symbol: str
    instrument: str
    rating: str
    confidence: str
    summary: str
    keyRisks: list[str]
    missing: list[str]


class Constraints(TypedDict):
    """Limits that hold for every recommendation; capital is None when it is not known."""

    stockOnly: bool
    optionsMode: str
    allowShort: bool
    capital: float | None
    maxOrderNotional: float
    maxSymbolShare: float
    cooldownHours: float


class ScreenerSubject(TypedDict):
    """One shard of a universe, for one lens."""

    lens: str
    shard: int
    symbols: list[str]
    constraints: Constraints


class CandidateSubject(TypedDict):
    """One candidate, as its run has it."""

    symbol: str
    instrument: str
    screenTheses: list[Thesis]
    constraints: Constraints


class ResearchSubject(CandidateSubject, total=False):
    """One candidate. memory: lines on what the desk concluded and did before."""

    memory: str | None


class TraderSubject(TypedDict):
    """One account with the verdicts of a run."""

    account: str
    verdicts: list[JudgedSymbol]
    portfolio: dict[str, Any]
    notes: dict[str, list[str]]
    limits: dict[str, float]
    constraints: Constraints


def constraints(settings: Settings, capital: float | None = None) -> Constraints:
    """Return the constraints of a subject. capital: buying power in account currency, None when it is not known."""
    return {
        "stockOnly": not settings.options_allowed,
        "optionsMode": settings.options_mode,
        "allowShort": settings.allow_short,
        "capital": capital,
        "maxOrderNotional": settings.max_order_notional,
        "maxSymbolShare": settings.max_symbol_share,
        "cooldownHours": settings.cooldown_hours,
    }


def screener_subject(
    lens: str, shard: int, symbols: Sequence[str], settings: Settings, capital: float | None = None
) -> ScreenerSubject:
    """Return the subject of one screener turn. capital: as of `constraints`."""
    return {"lens": lens, "shard": shard, "symbols": list(symbols), "constraints": constraints(settings, capital)}


def validator_subject(
    symbol: str, instrument: str, theses: Iterable[Thesis], settings: Settings, capital: float | None = None
) -> ResearchSubject:
    """Return the subject of one validator turn. theses: empty when no lens named the symbol. capital: as in
    `constraints`."""
    return {
        "symbol": symbol,
        "instrument": instrument,
        "screenTheses": list(theses),
        "constraints": constraints(settings, capital),
    }


def trader_subject(
    account: str,
    verdicts: Iterable[JudgedSymbol],
    portfolio: Mapping[str, Any],
    settings: Settings,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> TraderSubject:
    """Return the subject of the trader's turn.

    portfolio: as the tool portfolio_get returns it, {cash, equity, buyingPower, positions[{symbol, quantity,
    averageCost, marketPrice, priceDate, marketValue, share}]}; its buying power is the capital of the constraints.
    notes: by symbol, lines on its last decisions and their outcomes, oldest first.
    """
    own = constraints(settings, portfolio.get("buyingPower", portfolio.get("cash")))
    return {
        "account": account,
        "verdicts": list(verdicts),
        "portfolio": dict(portfolio),
        "notes": {symbol: list(lines) for symbol, lines in (notes or {}).items()},
        "limits": {name: own[name] for name in ("maxOrderNotional", "maxSymbolShare", "cooldownHours")},
        "constraints": own,
    }
