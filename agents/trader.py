"""The subject of the trader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.roles import constraints
from models.settings import Settings


@dataclass(frozen=True, slots=True)
class JudgedSymbol:
    """One candidate's verdict as the trader reads it; fields as in `models.research.VerdictResult`."""

    symbol: str
    instrument: str
    rating: str
    confidence: str
    summary: str
    key_risks: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def trader_subject(
    account: str,
    verdicts: Iterable[JudgedSymbol],
    portfolio: Mapping[str, Any],
    settings: Settings,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """The subject of the trader's turn.

    portfolio: {cash, equity, buyingPower, positions[{symbol, quantity, averageCost, marketPrice, marketValue, share}]}
    as the tool portfolio_get gives it; its buying power is the capital of the constraints.
    notes: by symbol the last lines of what was decided on it and what became of that, oldest first.
    """
    power = portfolio.get("buyingPower", portfolio.get("cash"))
    return {
        "account": account,
        "verdicts": [_verdict(one) for one in verdicts],
        "portfolio": dict(portfolio),
        "notes": {symbol: list(lines) for symbol, lines in (notes or {}).items()},
        "limits": {
            "maxOrderNotional": settings.max_order_notional,
            "maxSymbolShare": settings.max_symbol_share,
            "cooldownHours": settings.cooldown_hours,
        },
        "constraints": constraints(settings, power),
    }


def _verdict(one: JudgedSymbol) -> dict[str, Any]:
    return {
        "symbol": one.symbol,
        "instrument": one.instrument,
        "rating": one.rating,
        "confidence": one.confidence,
        "summary": one.summary,
        "keyRisks": list(one.key_risks),
        "missing": list(one.missing),
    }
