"""Every threshold of the rulebook, in one place.

The figures are the desk's own conventions for a long-only swing book; only the RSI levels of 70 and 80 have a
source (Wilder, New Concepts in Technical Trading Systems, 1978, calls 70 overbought). Units are those of
`models.market.SymbolSignals`: returns, distances, drawdowns and volatilities are fractions (0.05 is five per cent).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """Levels of a figure under a rule, in ascending gravity."""

    CALM = 0
    CAUTION = 1
    REJECT = 2


@dataclass(frozen=True, slots=True)
class Rule:
    """One figure with the values from which it is elevated and unacceptable."""

    key: str
    field: str
    title: str
    above: bool  # the figure is bad from the threshold upward, else downward; the threshold itself counts as reached
    caution: float
    reject: float | None  # None: the rule never rejects
    unit: str = "percent"
    absolute: bool = False  # the figure's size counts and not its sign
    # the field that has how many sessions the figure is of, where its name does not promise a number
    length: str | None = None

    def level(self, value: float) -> Level:
        measured = abs(value) if self.absolute else value
        if self.reject is not None and self._reached(measured, self.reject):
            return Level.REJECT
        return Level.CAUTION if self._reached(measured, self.caution) else Level.CALM

    def threshold(self, level: Level) -> float:
        return self.reject if level is Level.REJECT and self.reject is not None else self.caution

    def _reached(self, measured: float, threshold: float) -> bool:
        return measured >= threshold if self.above else measured <= threshold


@dataclass(frozen=True, slots=True)
class Bound:
    """A figure must lie within [low, high] to be put forward; None leaves a side open."""

    field: str
    low: float | None = None
    high: float | None = None

    def holds(self, value: float | None) -> bool:
        if value is None:
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


def _table(*rules: Rule) -> Mapping[str, Rule]:
    return {rule.key: rule for rule in rules}


# Price figures that validators check.
SIGNAL_RULES = _table(
    Rule("history", "sessions", "history", False, 119, 59, "sessions"),
    Rule("overbought", "rsi14", "RSI-14", True, 70, 80, "number"),
    Rule("falling", "momentum20", "20-session momentum", False, -0.05, -0.20),
    Rule("off_high", "fromHigh", "distance from the high", False, -0.25, -0.45, length="highSessions"),
    Rule("drawdown", "drawdown60", "60-session drawdown", False, -0.18, -0.35),
    Rule("volatility", "volatility20", "20-session realised volatility", True, 0.45, 0.80),
    Rule("volume_spike", "volumeRatio", "volume against its 20-session mean", True, 3.0, None, "times"),
    Rule("gap", "gap", "opening gap", True, 0.04, 0.10, absolute=True),
    Rule("extended", "sma20", "close above its mean of 20 sessions", True, 0.06, 0.15),
    Rule("split", "splitLike", "split-like moves in unadjusted prices", True, 1, None, "count"),
)

# The average true range is a share of the price: see `validators.risk`.
ATR_RULE = Rule("atr", "atr14", "14-session average true range as a share of the close", True, 0.045, 0.09)

# The last change of a name; it spans more than one session where the session before is missing.
DECLINE_RULE = Rule("decline", "change", "last change", False, -0.03, -0.08, length="changeSessions")

# Headlines of either tone, by count.
ADVERSE_NEWS_RULE = Rule("adverse_news", "adverse", "adverse headlines", True, 1, 4, "count")

# Company figures; the names are those of the overview's sections.
FUNDAMENTAL_RULES = _table(
    Rule("valuation", "trailingPE", "price to trailing earnings", True, 40, 120, "times"),
    Rule("margin", "profitMargin", "profit margin", False, 0.0, -0.25),
    Rule("revenue", "revenueGrowth", "revenue growth", False, -0.02, -0.25),
    Rule("debt", "debtToEquityPercent", "debt to equity, per cent", True, 200, 600, "number"),
    Rule("analysts", "recommendationMean", "mean analyst rating", True, 3.0, 4.0, "number"),
)

# Chart figures that the chart analyst checks. A close far above its support has room to fall: the study calls more than
# 4 average true ranges high. score: the trend's slope a year times its fit.
EXTENSION_RULE = Rule(
    "extension", "atr", "close above the nearest support, in average true ranges", True, 4, 8, "times"
)
TREND_RULE = Rule("trend", "score", "trend score", False, -0.10, -0.50, "number")

# Volatilities that the options analyst checks. Premium is rich from the first figure, fair from the second (implied
# over realised volatility).
PREMIUM_RICH, PREMIUM_FAIR = 1.2, 0.9
PREMIUM_RULE = Rule("premium", "ivHvRatio", "implied over realised volatility", False, PREMIUM_FAIR, 0.7, "times")
OPTION_RULES = _table(
    Rule("implied", "iv", "implied volatility", True, 0.60, 1.20),
    Rule("skew", "putSkew", "put skew", True, 0.10, None),
    Rule("term", "termSlope", "term slope of implied volatility", False, -0.05, None),
)
# Contracts that are looked at: below this delta a premium hardly pays its spread, above this return on capital a week
# it is a stale quote or the price of an event.
LEAST_DELTA, MOST_WEEKLY_ROC = 0.05, 0.03
CHAIN_ROWS = 20
ALTERNATIVES = 3
LEVELS = 3  # that the chart analyst names of a kind

# What the research analyst checks: headlines by count, days until the next report.
SEVERE_NEWS_RULE = Rule("severe_news", "severe", "headlines on insolvency, fraud or a halt", True, 1, 2, "count")
SHORT_RULE = Rule("short_interest", "ofFloat", "short interest, of the float", True, 0.10, 0.20)
EARNINGS_RULE = Rule("earnings", "daysUntil", "days until the next report", False, 14, None, "count")

# What a rule makes of a base rate, in log odds, by its gravest finding: a convention, that no record stands behind.
THESIS_STEPS: Mapping[Level, float] = {Level.CALM: 0.25, Level.CAUTION: -0.25, Level.REJECT: -1.0}

HORIZON = 10  # sessions of a thesis without a base rate, the shorter of those that base rates have

QUICK_RULES = ("history", "overbought", "falling", "drawdown", "volatility", "split")
OVERVIEW_COMPANY_RULES = ("valuation", "margin", "analysts")
OVERVIEW_PRICE_RULES = ("history", "falling", "off_high", "volatility")
SKEPTIC_RULES = ("overbought", "extended", "volatility", "gap")
RISK_RULES = ("off_high", "drawdown", "volatility", "volume_spike", "gap")

# Names that screens put forward: every bound must hold. No lens trusts prices with a move that may be a split.
UNSPLIT = Bound("splitLike", high=0)
TECHNICAL_BOUNDS = (
    Bound("momentum20", low=0.02),
    Bound("rsi14", low=50, high=75),
    Bound("fromHigh", low=-0.15),
    Bound("highSessions", low=120),
    Bound("volatility20", high=0.55),
    Bound("drawdown60", low=-0.25),
)
TECHNICAL_STRONG = (Bound("momentum60", low=0.05), Bound("fromHigh", low=-0.05), Bound("sma50", low=0.0))

# A catalyst is at least one of these on a day that did not close lower than this change.
CATALYST_TRIGGERS = (Bound("gap", low=0.01), Bound("volumeRatio", low=1.5), Bound("change", low=0.02))
CATALYST_CHANGE = Bound("change", low=-0.005)

# Premium worth having on a name that does not fall.
OPTIONS_BOUNDS = (
    Bound("volatility20", low=0.22, high=0.50),
    Bound("momentum60", low=-0.02),
    Bound("drawdown60", low=-0.18),
    Bound("rsi14", low=40, high=70),
)

FUNDAMENTAL_BOUNDS = (
    Bound("trailingPE", low=0.0, high=30),
    Bound("profitMargin", low=0.08),
    Bound("revenueGrowth", low=0.03),
    Bound("recommendationMean", high=2.6),
)
FUNDAMENTAL_LEAST = 2  # bounds that must be known before a company is judged

HITS_PER_LENS = 6  # names one lens puts forward from one shard
OPTIONS_BATCH = 10  # names for which the volatilities are requested, the most of one call

# The trader: sizes are the bounds that code worked out.
CASH_RESERVE = 0.02  # share of buying power that stays unused: an order's fill price is not known yet
REDUCE_BY = 0.5  # share of a holding that a CAUTION verdict sells
