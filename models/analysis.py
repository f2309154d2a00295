"""Answers of the analysts (chart, options, research) as a model gives them and as they are kept, and their limits.

An analyst names levels and contracts by the ids that tools gave; code fills in their figures, so that none is retyped.
Prices are in the listing's currency per share, returns and volatilities fractions (0.05 is 5 %), dates in ISO form.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, model_validator

from chordesk.models.answers import Confidence, Frozen, Rating, ReportStatus, Stance, Wire
from chordesk.models.errors import UsageError
from chordesk.models.market import parse_contract
from chordesk.models.thesis import KeptThesis, Pooled, Thesis


class ValidatorOutput(Wire):
    """The answer of a validator for one candidate."""

    verdict: Stance
    confidence: Confidence
    summary: str = Field(min_length=1, max_length=8000)
    key_risks: list[str]
    thesis: Thesis = Thesis()


class RoleReport(Frozen):
    """One role's report as the reducer sees it; verdict and confidence are set when status is completed.

    age_hours: market time since it was made, of a report of an earlier run; None for one of this run. sourced: number
    of figures of its texts that a tool's answer has of the symbol, None where they were not counted. is_grounded: its
    figures may be believed; reason names those that may not. thesis: None
    without an answer, and of an older version's report. crossed_on: the session after which its thesis is proven wrong.
    """

    role: str
    status: ReportStatus
    verdict: Stance | None = None
    confidence: Confidence | None = None
    summary: str = ""
    key_risks: list[str] = []
    reason: str | None = None
    age_hours: float | None = None
    sourced: int | None = None
    is_grounded: bool = True
    thesis: KeptThesis | None = None
    crossed_on: dt.date | None = None


class VerdictResult(Frozen):
    """The reduced reports of one candidate. pooled: of their theses; None where stances decided."""

    rating: Rating
    confidence: Confidence
    summary: str
    key_risks: list[str]
    completed: list[str]
    missing: list[str]
    pooled: Pooled | None = None


Strategy = Literal["csp", "covered_call", "equity"]
Depth = Literal["quick", "standard", "deep"]
Risk = Literal["low", "moderate", "high"]
Quality = Literal["strong", "moderate", "weak"]
Recommendation = Literal["select", "reject", "incomplete"]
CheckState = Literal["ok", "warn", "fail", "unknown"]

# The kind of contract that a strategy writes.
WRITES: Mapping[Strategy, Literal["put", "call"]] = {"csp": "put", "covered_call": "call"}
# Roles whose report is on the instrument of a plan: it never rates the share.
PLANNERS = frozenset({"options"})

_Summary = Annotated[str, Field(min_length=1, max_length=8000)]
_Id = Annotated[str, Field(min_length=1, max_length=40)]
_Contract = Annotated[str, Field(min_length=1, max_length=21)]


class AnalysisRequest(Frozen):
    """What an analysis was asked for; in the payload of its steps as `analysis`. max_delta: of |delta|; min_weekly_roc:
    return on capital a week as a fraction, 0.005 is 0.5 %; days: calendar days to expiry; contracts: of one order;
    chart, research: whether these analysts are asked, a market without a past or without news has nothing for them;
    orders: whether code proposes any; across_earnings: leave to write a put whose life spans a day of earnings, or of
    which no such day is known."""

    strategy: Strategy = "csp"
    max_delta: float = Field(0.30, gt=0, le=1, allow_inf_nan=False)
    min_weekly_roc: float = Field(0.005, ge=0, le=1, allow_inf_nan=False)
    min_days: int = Field(14, ge=1, le=400)
    max_days: int = Field(45, ge=1, le=400)
    contracts: int = Field(1, ge=1, le=1000)
    chart: StrictBool = True
    research: StrictBool = True
    orders: StrictBool = True
    across_earnings: StrictBool = False

    @model_validator(mode="after")
    def _fits_together(self) -> AnalysisRequest:
        if self.min_days > self.max_days:
            range_ = f"{self.min_days} to {self.max_days} days to expiry is no range"
            raise UsageError(range_, remedy="name the fewest days first")
        if self.strategy not in WRITES and not self.chart:
            why = f"the strategy {self.strategy} rests on the chart: research alone decides nothing"
            raise UsageError(why, remedy="leave the chart in")
        return self

    @property
    def roles(self) -> tuple[str, ...]:
        """The analysts, in the order in which they report; the same ones judge the share whatever the strategy."""
        return (*self.judges, "options") if self.strategy in WRITES else self.judges

    @property
    def judges(self) -> tuple[str, ...]:
        """Those of the roles that rate the share. The role `risk` judges in place of one that is left out, by prices
        alone."""
        both = self.chart and self.research
        asked = (("chart", self.chart), ("risk", not both), ("research", self.research))
        return tuple(name for name, wanted in asked if wanted)

    @property
    def proposes(self) -> bool:
        """Whether code makes orders: orders of shares are left to the trader, and a contract that only the options
        report supports is shown alone."""
        return self.orders and self.strategy in WRITES and (self.chart or self.research)


def break_even_texts(contract: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """A call's break_even is of the call alone: with its shares a covered call breaks even elsewhere."""
    found = parse_contract(contract)
    if found is not None and found.kind == "call":
        return ("break_even", "break-even of the call alone {:.2f}"), ("pop", "probability of ending below that {:.0%}")
    return ("break_even", "break-even {:.2f}"), ("pop", "probability of profit {:.0%}")


class AnalysisCheck(Frozen):
    """One check of a synthesis, made by code. figures: the numbers that it rests on."""

    id: str
    state: CheckState
    text: str
    figures: dict[str, Any] = {}


class ChartOutput(Wire):
    """The chart analyst's answer. support, resistance, confluence: ids of levels, the most important first. A field is
    None where the chart does not show it."""

    recommendation: Literal["bullish", "bearish", "neutral", "reject"]
    confidence: Confidence
    trend_direction: Literal["up", "down", "sideways"] | None
    trend_quality: Quality | None
    extension_risk: Risk | None
    support: list[_Id]
    resistance: list[_Id]
    confluence: list[_Id]
    summary: _Summary
    key_risks: list[str]
    thesis: Thesis = Thesis()


class OptionsOutput(Wire):
    """The options analyst's answer. contract: OCC symbol of the contract to write, None with `reject`; alternatives:
    other contracts, the best first. premium_quality: of the premium against realised volatility."""

    recommendation: Literal["select", "reject"]
    confidence: Confidence
    contract: _Contract | None
    alternatives: list[_Contract]
    premium_quality: Literal["rich", "fair", "poor"] | None
    summary: _Summary
    key_risks: list[str]
    thesis: Thesis = Thesis()


class ResearchOutput(Wire):
    """The research analyst's answer. A risk is None where no source has data on it."""

    recommendation: Literal["pass", "reject"]
    confidence: Confidence
    news_risk: Risk | None
    earnings_risk: Risk | None
    short_interest_risk: Risk | None
    summary: _Summary
    key_risks: list[str]
    thesis: Thesis = Thesis()


class SynthesisOutput(Wire):
    """The text around a synthesis that code made."""

    headline: Annotated[str, Field(min_length=1, max_length=300)]
    summary: _Summary
    key_risks: list[str]


class AnalystReport(ValidatorOutput):
    """Base of an analyst's answer as it is kept: a model's judgement, with the figures that code added. None is
    unknown."""

    symbol: str


class NamedLevel(Frozen):
    """A level that an analyst named. type: support, resistance, fib_61.8 and so on; members: ids of the levels that
    meet in a zone of confluence."""

    id: str
    type: str
    price: float
    touches: int | None = None
    strength: Quality | None = None
    members: list[str] = []


class TrendFigures(Frozen):
    """Trend of the last `bars` closes."""

    direction: Literal["up", "down", "sideways"]
    quality: Quality | None
    r2: float  # share of their log's variance that a straight line explains
    slope_year: float  # that line's growth in a year as a fraction
    score: float  # slope_year times r2
    bars: int


class ExtensionFigures(Frozen):
    """The measured distance of the close above the nearest support, in average true ranges."""

    atr: float
    risk: Risk


class ChartAnalysis(AnalystReport):
    """A chart report. trend_direction, trend_quality, extension_risk: the analyst's view; trend, extension: measured
    over the bars from `first` to `last`."""

    recommendation: Literal["bullish", "bearish", "neutral", "reject"]
    trend_direction: Literal["up", "down", "sideways"] | None
    trend_quality: Quality | None
    extension_risk: Risk | None
    support_levels: list[NamedLevel]
    resistance_levels: list[NamedLevel]
    confluence: list[NamedLevel]
    interval: Literal["day", "week"] | None
    first: str | None
    last: str | None
    close: float | None
    atr14: float | None
    adx14: float | None
    trend: TrendFigures | None
    extension: ExtensionFigures | None


class ContractFigures(Frozen):
    """Figures of a contract to write. premium: mid a share; delta: with its sign; source: of the quotes, such as
    `modelled`."""

    contract: str | None
    dte: int | None
    premium: float | None
    weekly_roc: float | None
    delta: float | None
    liquidity_score: Literal["good", "fair", "poor", "unknown"] | None
    source: str | None


class WrittenContract(ContractFigures):
    """Another contract that an analyst named."""

    strike: float | None
    expiration: str | None


class OptionsAnalysis(AnalystReport, ContractFigures):
    """An options report. Figures are of `contract`, None without one: theta: a day; vega: a point; pop: risk-neutral
    probability of the writer's profit. greeks: market, computed or modelled. iv_hv_ratio, put_skew, term_slope and
    iv_rank are of the symbol and not of the contract, see volatility_get."""

    recommendation: Literal["select", "reject"]
    strategy: Strategy
    best_strike: float | None
    best_expiration: str | None
    bid: float | None
    ask: float | None
    roc: float | None
    annualized_roc: float | None
    gamma: float | None
    theta: float | None
    vega: float | None
    iv: float | None
    iv_hv_ratio: float | None
    put_skew: float | None
    term_slope: float | None
    iv_rank: float | None
    break_even: float | None
    pop: float | None
    greeks: Literal["market", "computed", "modelled"] | None
    premium_quality: Literal["rich", "fair", "poor"] | None
    alternative_strikes: list[WrittenContract]


class ResearchAnalysis(AnalystReport):
    """A research report. earnings_date: the next one by a source of this turn."""

    recommendation: Literal["pass", "reject"]
    news_risk: Risk | None
    earnings_risk: Risk | None
    short_interest_risk: Risk | None
    earnings_date: str | None
