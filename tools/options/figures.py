"""Figures of one contract: its Greeks, from the market where it gives them, and the returns of writing it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, Literal

from chordesk.models.contracts import MODELLED, ChainRow, Greeks, OptionChain
from chordesk.tools.decimals import rounded
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.options.liquidity import Liquidity, liquidity_of
from chordesk.tools.options.quotes import mid_of
from chordesk.tools.pricing.black_scholes import DAYS_A_YEAR, MODEL, Terms, greeks, implied_volatility
from chordesk.tools.pricing.returns import WrittenReturns, profit_probability, written_returns

MODELLED_NOTE = (
    "modelled, no market's quotes: volatility at the money is 1.1 times the Yang-Zhang volatility of 20 sessions, with "
    "a fitted smile; volume and open interest are not known"
)


@dataclass(frozen=True, slots=True)
class ContractFigures:
    """One contract with its figures; None is unknown, and `problem` is the reason. spread: as a fraction of mid.
    basis: where iv and Greeks come from. probability: of the writer's profit, risk-neutral."""

    row: ChainRow
    source: str
    days: int
    mid: float | None
    spread: float | None
    iv: float | None
    greeks: Greeks | None
    basis: Literal["market", "computed", "modelled"] | None
    returns: WrittenReturns | None
    probability: float | None
    liquidity: Liquidity
    problem: str | None

    def payload(self) -> dict[str, Any]:
        """Return the row of an answer."""
        row, contract, found, returns = self.row, self.row.contract, self.greeks, self.returns
        shown = {
            "contract": contract.symbol,
            "kind": contract.kind,
            "expiry": contract.expiry.isoformat(),
            "dte": self.days,
            "strike": float(contract.strike),
            "bid": row.bid,
            "ask": row.ask,
            "mid": rounded(self.mid),
            "spread": rounded(self.spread),
            "volume": row.volume,
            "openInterest": row.open_interest,
            "iv": rounded(self.iv),
            "delta": rounded(found.delta if found else None),
            "gamma": rounded(found.gamma if found else None, 5),
            "theta": rounded(found.theta if found else None),
            "vega": rounded(found.vega if found else None),
            "roc": rounded(returns.roc if returns else None, 5),
            "rocWeekly": rounded(returns.weekly if returns else None, 5),
            "rocAnnual": rounded(returns.annual if returns else None),
            "breakEven": rounded(returns.break_even if returns else None),
            "pop": rounded(self.probability),
            "liquidity": self.liquidity,
            "source": self.source,
            "greeks": self.basis,
        }
        return shown if self.problem is None else {**shown, "problem": self.problem}


def contract_figures(row: ChainRow, chain: OptionChain, rate: float) -> ContractFigures:
    """Return the figures of a row of a chain, as of the chain's time. rate: interest a year."""
    days = (row.contract.expiry - exchange_day(chain.at)).days
    terms = terms_of(row, chain, rate)
    mid, problem = mid_of(row)
    if mid is not None and mid < terms.intrinsic - _half_spread(row):
        mid, problem = None, f"its price {mid:.2f} is below its intrinsic value {terms.intrinsic:.2f}"
    iv, found, basis, why = _greeks(row, chain, terms, mid)
    returns = written_returns(terms, mid, days) if mid is not None else None
    probability = profit_probability(terms, mid, iv) if mid is not None and iv is not None and days > 0 else None
    return ContractFigures(
        row=row,
        source=chain.source,
        days=days,
        mid=mid,
        spread=(row.ask - row.bid) / mid if mid and row.ask is not None and row.bid is not None else None,
        iv=iv,
        greeks=found,
        basis=basis,
        returns=returns,
        probability=probability,
        liquidity=liquidity_of(row, mid),
        problem=problem or why,
    )


def terms_of(row: ChainRow, chain: OptionChain, rate: float) -> Terms:
    """Return what the model needs of a contract; a dividend yield that the source does not give is none."""
    days = max((row.contract.expiry - exchange_day(chain.at)).days, 0)
    contract = row.contract
    return Terms(
        contract.kind, chain.spot, float(contract.strike), days / DAYS_A_YEAR, rate, chain.dividend_yield or 0.0
    )


def inputs_of(chain: OptionChain, rate: float, today: dt.date) -> dict[str, Any]:
    """Return the inputs and the source of a chain's figures, for its answer."""
    shown = {
        "symbol": chain.symbol,
        "source": chain.source,
        "quotedAt": chain.at.isoformat(),
        "spot": chain.spot,
        "model": MODEL,
        "rate": rate,
        "dividendYield": chain.dividend_yield,
        "expiries": sorted({row.contract.expiry.isoformat() for row in chain.rows if row.contract.expiry >= today}),
    }
    if chain.interest_day is not None:
        shown["openInterestOf"] = chain.interest_day.isoformat()
    notes = [MODELLED_NOTE] if chain.source == MODELLED else []
    if chain.dividend_yield is None:
        notes.append("dividends are not known; computed figures take none")
    return {**shown, "note": "; ".join(notes)} if notes else shown


def _half_spread(row: ChainRow) -> float:
    """Return what a mid may lie below the intrinsic value while the ask does not."""
    return max(((row.ask or 0.0) - (row.bid or 0.0)) / 2, 0.0)


def _greeks(
    row: ChainRow, chain: OptionChain, terms: Terms, mid: float | None
) -> tuple[float | None, Greeks | None, Literal["market", "computed", "modelled"] | None, str | None]:
    """Return (volatility, Greeks, where they come from, why there are none)."""
    if row.greeks is not None:
        return row.iv, row.greeks, "modelled" if chain.source == MODELLED else "market", None
    if mid is None:
        return None, None, None, None
    iv, why = implied_volatility(terms, mid)
    return (iv, greeks(terms, iv), "computed", None) if iv is not None else (None, None, None, why)
