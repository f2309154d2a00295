"""Completion of an options answer: the figures of the contracts that it names, checked against the subject's limits."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, cast

from chordesk.agents.analysts.evidence import Row, day_of, figure, rows
from chordesk.agents.answers import AnswerError, RecordedCall
from chordesk.models.analysis import WRITES, OptionsAnalysis, Strategy, WrittenContract
from chordesk.models.contracts import OptionContract, parse_contract, root_of
from chordesk.models.research import Stance

STANCES = {"select": Stance.CONFIRMED, "reject": Stance.REJECT}
_CHAINS = {"option_chain_get": "contracts", "option_greeks_get": "contracts"}
_INPUTS = dict.fromkeys((*_CHAINS, "volatility_get", "options_unusual"), "chains")
_VOLATILITIES = {"volatility_get": "volatilities"}
# Figures without which a contract cannot be chosen.
NEEDED = ("strike", "dte", "bid", "ask", "mid", "delta", "rocWeekly", "breakEven")
_SLACK = 1e-9  # limits and figures are decimals
# Fields of the analysis, by the field of a tool's row.
_FIGURES = {
    "best_strike": "strike", "premium": "mid", "bid": "bid", "ask": "ask", "roc": "roc", "weekly_roc": "rocWeekly",
    "annualized_roc": "rocAnnual", "delta": "delta", "gamma": "gamma", "theta": "theta", "vega": "vega", "iv": "iv",
    "break_even": "breakEven", "pop": "pop", "dte": "dte",
}  # fmt: skip
_TEXTS = {"best_expiration": "expiry", "liquidity_score": "liquidity", "source": "source", "greeks": "greeks"}


def complete_options(
    answer: dict[str, Any], subject: Mapping[str, Any], calls: Sequence[RecordedCall]
) -> dict[str, Any]:
    """Return the answer as an OptionsAnalysis.

    Raises AnswerError for a selection without a contract, for a contract that no answer of the turn has, of another
    symbol or kind, expired, outside the limits, or without a figure that a choice needs. A rejection has no contract.
    """
    symbol, strategy = str(subject["symbol"]), cast(Strategy, subject["strategy"])
    listed = {str(row["contract"]): row for row in rows(calls, _CHAINS)}
    chosen, others = None, list[Row]()
    if answer["recommendation"] == "select":
        names = _names(answer, strategy)
        found = [_row(name, subject, listed, day_of(calls)) for name in names]
        if found:
            chosen, others = found[0], found[1:]
            _require_figures(chosen)
            _require_limits(chosen, subject["limits"])
    volatility = next(iter([*rows(calls, _VOLATILITIES, symbol)][-1:]), {})
    row = chosen or {}
    made = OptionsAnalysis(
        verdict=STANCES[answer["recommendation"]],
        symbol=symbol,
        strategy=strategy,
        contract=row.get("contract"),
        iv_hv_ratio=figure(volatility, "ivHvRatio"),
        alternative_strikes=[_alternative(one) for one in others],
        **{name: figure(row, given) for name, given in _FIGURES.items()},
        **{name: row.get(given) for name, given in _TEXTS.items()},
        **{name: value for name, value in answer.items() if name not in ("contract", "alternatives")},
    )
    return made.model_dump(mode="json")


def has_chain(subject: Mapping[str, Any], calls: Sequence[RecordedCall]) -> bool:
    """Return whether an answer has seen contracts on the symbol, fitting ones or not."""
    return any(row.get("expiries") for row in rows(calls, _INPUTS, str(subject["symbol"])))


def _names(answer: Mapping[str, Any], strategy: Strategy) -> list[str]:
    """Return the contracts of a selection, the chosen one first; a strategy in shares alone has none."""
    named = [name for name in (answer["contract"], *answer["alternatives"]) if name is not None]
    if strategy not in WRITES:
        if named:
            raise AnswerError(f"contract: {named[0]!r}, but the strategy {strategy} writes none: answer null and []")
        return []
    if answer["contract"] is None:
        raise AnswerError("contract: null with the recommendation select: name the contract to write, or reject")
    return list(dict.fromkeys(named))


def _row(name: str, subject: Mapping[str, Any], listed: Mapping[str, Row], today: dt.date | None) -> Row:
    """Return the figures of a contract. Raises AnswerError where it is none that could be written."""
    symbol, kind = str(subject["symbol"]), WRITES[subject["strategy"]]
    contract: OptionContract | None = parse_contract(name.strip().upper())
    if contract is None:
        raise AnswerError(f"contract: {name!r} is no OCC symbol, such as AAPL261218P00180000")
    if contract.underlying != root_of(symbol):
        raise AnswerError(f"contract: {contract.symbol} is on {contract.underlying}, and the subject is {symbol}")
    if contract.kind != kind:
        raise AnswerError(f"contract: {contract.symbol} is a {contract.kind}; {subject['strategy']} writes a {kind}")
    if today is not None and contract.expiry < today:
        raise AnswerError(f"contract: {contract.symbol} expired on {contract.expiry}; today is {today}")
    if contract.symbol not in listed:
        raise AnswerError(f"contract: no option answer of this turn has {contract.symbol}; name one that an answer has")
    return listed[contract.symbol]


def _require_figures(row: Row) -> None:
    if lacking := [name for name in NEEDED if figure(row, name) is None]:
        why = f" ({row['problem']})" if row.get("problem") else ""
        raise AnswerError(f"contract: {row['contract']} has no {', '.join(lacking)}{why}, so it cannot be chosen")


def _require_limits(row: Row, limits: Mapping[str, Any]) -> None:
    """Raise AnswerError for a figure outside the subject's limits."""
    delta, weekly, days = abs(row["delta"]), row["rocWeekly"], row["dte"]
    for name, value, broken, limit in (
        ("|delta|", delta, delta > limits["maxDelta"] + _SLACK, f"maxDelta is {limits['maxDelta']}"),
        ("rocWeekly", weekly, weekly < limits["minWeeklyRoc"] - _SLACK, f"minWeeklyRoc is {limits['minWeeklyRoc']}"),
        ("dte", days, days < limits["dteMin"], f"dteMin is {limits['dteMin']}"),
        ("dte", days, days > limits["dteMax"], f"dteMax is {limits['dteMax']}"),
    ):
        if broken:
            raise AnswerError(f"contract: {name} of {row['contract']} is {value}, and {limit}")


def _alternative(row: Row) -> WrittenContract:
    return WrittenContract(
        contract=row["contract"],
        strike=figure(row, "strike"),
        expiration=row.get("expiry"),
        dte=row.get("dte"),
        premium=figure(row, "mid"),
        weekly_roc=figure(row, "rocWeekly"),
        delta=figure(row, "delta"),
        liquidity_score=row.get("liquidity"),
        source=row.get("source"),
    )
