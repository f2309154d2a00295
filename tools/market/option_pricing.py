"""Option pricing: Black-Scholes-Merton prices and Greeks, returns of a written option, realised volatility of whole
bars."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from chordesk.models.market import Greeks

MODEL = "Black-Scholes-Merton, European"
DAYS_A_YEAR = 365
LEAST_VOLATILITY, MOST_VOLATILITY = 0.001, 5.0
# A solved volatility must give the price again, to this share of the spot.
_REPRICED_WITHIN = 1e-7
_CENT_CLASS_BELOW = 3.0


@dataclass(frozen=True, slots=True)
class Terms:
    """What a price depends on beside the volatility. spot and strike per share, years to expiry (days / 365), rate and
    dividend_yield a year, continuously compounded."""

    kind: Literal["call", "put"]
    spot: float
    strike: float
    years: float
    rate: float
    dividend_yield: float = 0.0

    @property
    def sign(self) -> int:
        return 1 if self.kind == "call" else -1

    @property
    def discount(self) -> float:
        return math.exp(-self.rate * self.years)

    @property
    def carry(self) -> float:
        return math.exp(-self.dividend_yield * self.years)

    @property
    def intrinsic(self) -> float:
        """Return what an exercise now is worth per share."""
        return max(self.sign * (self.spot - self.strike), 0.0)

    @property
    def least(self) -> float:
        """Return the value without volatility, the least that a European option can cost."""
        return max(self.sign * (self.spot * self.carry - self.strike * self.discount), 0.0)

    @property
    def most(self) -> float:
        """Return the value with endless volatility, the most that it can cost."""
        return self.spot * self.carry if self.kind == "call" else self.strike * self.discount


def price(terms: Terms, volatility: float) -> float:
    if terms.years <= 0 or volatility <= 0:
        return terms.least
    up, sign = d1(terms, terms.strike, volatility), terms.sign
    down = up - volatility * math.sqrt(terms.years)
    worth = terms.spot * terms.carry * normal(sign * up) - terms.strike * terms.discount * normal(sign * down)
    return max(sign * worth, 0.0)


STEPS = 200
_NEAR = 0.8


def continuation(terms: Terms, volatility: float, steps: int = STEPS) -> float:
    """Return what an American option is worth to who does not exercise it now.

    The binomial tree of Cox, Ross and Rubinstein (1979): in each step the share goes up by u = exp(v sqrt(dt)) or down
    by 1 / u, risk-neutrally, and the option is worth the larger of its exercise and its discounted mean. It assumes
    constant rate, yield and volatility. The tree gives what the right to exercise adds to the European price of the
    formula, since most of the error of its steps is in both of its values and cancels.
    """
    if terms.years <= 0 or volatility <= 0:
        return terms.least
    step = terms.years / steps
    # The tree has no risk-neutral probability where the drift of a step outweighs the volatility.
    volatility = max(volatility, 1.01 * abs(terms.rate - terms.dividend_yield) * math.sqrt(step))
    up, kept = math.exp(volatility * math.sqrt(step)), math.exp(-terms.rate * step)
    rises = (math.exp((terms.rate - terms.dividend_yield) * step) - 1 / up) / (up - 1 / up)
    prices = terms.spot * up ** np.arange(-steps, steps + 1, 2.0)
    worth = np.maximum(terms.sign * (prices - terms.strike), 0.0)
    european = worth
    for left in range(steps - 1, -1, -1):
        worth = kept * (rises * worth[1:] + (1 - rises) * worth[:-1])
        european = kept * (rises * european[1:] + (1 - rises) * european[:-1])
        if left:
            prices = prices[1:] / up
            worth = np.maximum(worth, terms.sign * (prices - terms.strike))
    return price(terms, volatility) + max(float(worth[0] - european[0]), 0.0)


def american(terms: Terms, volatility: float, steps: int = STEPS) -> float:
    """Return the value of an American option. A call without dividends is never exercised early: the European's."""
    far = terms.kind == "put" and terms.strike < _NEAR * terms.spot  # the right to exercise is worth nothing yet
    if far or (terms.kind == "call" and terms.dividend_yield <= 0):
        return max(price(terms, volatility), terms.intrinsic)
    return max(continuation(terms, volatility, steps), terms.intrinsic)


def greeks(terms: Terms, volatility: float) -> Greeks:
    """Return the Greeks for time and volatility above zero: theta a calendar day, vega and rho for one point of
    volatility and of the rate (0.01)."""
    root, sign = math.sqrt(terms.years), terms.sign
    up = d1(terms, terms.strike, volatility)
    down = up - volatility * root
    density = math.exp(-up * up / 2) / math.sqrt(2 * math.pi)
    spot, strike = terms.spot * terms.carry, terms.strike * terms.discount
    decay = -spot * density * volatility / (2 * root)
    kept = sign * (terms.dividend_yield * spot * normal(sign * up) - terms.rate * strike * normal(sign * down))
    return Greeks(
        delta=sign * terms.carry * normal(sign * up),
        gamma=terms.carry * density / (terms.spot * volatility * root),
        theta=(decay + kept) / DAYS_A_YEAR,
        vega=spot * density * root / 100,
        rho=sign * strike * terms.years * normal(sign * down) / 100,
    )


def beyond(terms: Terms, level: float, volatility: float) -> float:
    """Return the risk-neutral probability that the share ends above `level`: N(d2) with the level as strike."""
    down = d1(terms, level, volatility) - volatility * math.sqrt(terms.years)
    return normal(down)


def implied_volatility(terms: Terms, paid: float) -> tuple[float | None, str | None]:
    """Return (the volatility at which the model's price is `paid`, None), or (None, the reason). There is none where
    the time value is under a tick: a cent would move it by ten points or more."""
    why = _unsolvable(terms, paid)
    if why is not None:
        return None, why
    flag, solver = terms.kind[0], _solver()
    forward = terms.spot * terms.carry / terms.discount
    found = float(solver(paid / terms.discount, forward, terms.strike, terms.years, 1 if flag == "c" else -1))
    if not LEAST_VOLATILITY <= found <= MOST_VOLATILITY:
        return None, f"no volatility from {LEAST_VOLATILITY:.1%} to {MOST_VOLATILITY:.0%} gives this price"
    if abs(price(terms, found) - paid) > _REPRICED_WITHIN * terms.spot:
        return None, "the solved volatility does not give this price again"
    return found, None


def tick(paid: float) -> float:
    """Return the least step of an option's price in a class quoted in cents: $.01 below $3, $.05 from there on."""
    return 0.01 if paid < _CENT_CLASS_BELOW else 0.05


def d1(terms: Terms, level: float, volatility: float) -> float:
    drift = terms.rate - terms.dividend_yield + volatility * volatility / 2
    return (math.log(terms.spot / level) + drift * terms.years) / (volatility * math.sqrt(terms.years))


def normal(value: float) -> float:
    return math.erfc(-value / math.sqrt(2)) / 2


def _unsolvable(terms: Terms, paid: float) -> str | None:
    if terms.years <= 0:
        return "it expires today"
    if not math.isfinite(paid) or paid <= 0:
        return "it has no price"
    if paid < terms.intrinsic:
        return f"its price {paid:.2f} is below its intrinsic value {terms.intrinsic:.2f}"
    if paid - max(terms.intrinsic, terms.least) < tick(paid):
        return "its time value is under a tick"
    return f"its price {paid:.2f} is more than any volatility gives" if paid >= terms.most else None


def _solver() -> Any:
    # Jaeckel, Let's Be Rational, 2015; the solver that vollib calls, without scipy's 2.5 s and 90 MB.
    return importlib.import_module("lets_be_rational").implied_volatility_from_a_transformed_rational_guess


@dataclass(frozen=True, slots=True)
class WrittenReturns:
    """Fractions of the capital: a secured put's strike, the share's price for a covered call."""

    roc: float  # premium / capital
    weekly: float  # by days to expiry, without compounding
    annual: float
    break_even: float  # price of the share at expiry


def written_returns(terms: Terms, premium: float, days: int) -> WrittenReturns | None:
    """Return them for a premium per share and calendar days to expiry; None on the last day."""
    if days <= 0:
        return None
    roc = premium / (terms.strike if terms.kind == "put" else terms.spot)
    return WrittenReturns(roc, roc * 7 / days, roc * DAYS_A_YEAR / days, terms.strike + terms.sign * premium)


def profit_probability(terms: Terms, premium: float, volatility: float) -> float | None:
    """Return the risk-neutral probability that the writer keeps a profit: a put's share ends above the break-even, a
    call's below it. None where the premium is as large as a put's strike."""
    level = terms.strike + terms.sign * premium
    if level <= 0:
        return None
    above = beyond(terms, level, volatility)
    return above if terms.kind == "put" else 1 - above


SESSIONS_A_YEAR = 252
Floats = npt.NDArray[np.float64]


def yang_zhang(opened: Floats, high: Floats, low: Floats, close: Floats, sessions: int = 20) -> float | None:
    """Return the annualised volatility of n sessions from their opens, ranges and closes; None where bars are missing.

    Yang and Zhang, Drift-Independent Volatility Estimation, Journal of Business, 2000: the variance of the overnight
    returns, plus k times that of open to close, plus 1 - k times the mean of Rogers and Satchell's, with
    k = 0.34 / (1.34 + (n + 1) / (n - 1)).
    """
    if len(close) <= sessions or sessions < 2:
        return None
    first = slice(-sessions - 1, -1)
    last = slice(-sessions, None)
    overnight = np.log(opened[last] / close[first])
    day = np.log(close[last] / opened[last])
    up, down = np.log(high[last] / opened[last]), np.log(low[last] / opened[last])
    within = up * (up - day) + down * (down - day)
    weight = 0.34 / (1.34 + (sessions + 1) / (sessions - 1))
    variance = overnight.var(ddof=1) + weight * day.var(ddof=1) + (1 - weight) * within.mean()
    return float(math.sqrt(variance * SESSIONS_A_YEAR)) if math.isfinite(variance) and variance >= 0 else None
