"""The subjects of turns: the data that a role's question carries, and the functions that build them.

The data that all subjects of a role share in a run come first, the symbol's last, so that a provider's cache of prompts
hits.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

from chordesk.models.analysis import PLANNERS, AnalysisRequest, Strategy
from chordesk.models.plans import Sizing, Stress
from chordesk.models.questions import BoardQuestion, VoicePosition, shift
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Signal

if TYPE_CHECKING:
    from chordesk.tools.lenses.files import Lens


class Thesis(TypedDict):
    """The reason for which one lens put a symbol forward."""

    lens: str
    confidence: str
    thesis: str


class PlannedInstrument(TypedDict):
    """The plan of an instrument on a candidate, beside its verdict: it rates no share. reasons: why it is not
    select."""

    strategy: Strategy
    recommendation: str
    contract: str | None
    reasons: list[str]


class JudgedSymbol(TypedDict):
    """One candidate's verdict as the trader reads it; fields as in `models.analysis.VerdictResult`. probability: that
    its symbol beats the universe's median, by the record of such verdicts; only once there is enough of one. pooled: a
    `models.thesis.Pooled`, theses: the roles' in full with what code knows of levels and a contract, none of an older
    verdict. against: the roles that reject it with figures. kept: why its holding is not sold on this verdict, of
    `agents.verdicts.research_verdict.kept_because`. plan: of an instrument on it, where one was asked for."""

    symbol: str
    instrument: str
    rating: str
    confidence: str
    summary: str
    keyRisks: list[str]
    missing: list[str]
    probability: NotRequired[float]
    against: NotRequired[list[str]]
    kept: NotRequired[str]
    sizing: NotRequired[dict[str, Any]]
    plan: NotRequired[PlannedInstrument]
    pooled: NotRequired[dict[str, Any]]
    theses: NotRequired[dict[str, Any]]


class Constraints(TypedDict):
    """Limits that hold for every recommendation. capital: None if unknown."""

    stockOnly: bool
    optionsMode: str
    allowShort: bool
    capital: float | None
    maxOrderNotional: float
    maxSymbolShare: float
    cooldownHours: float


class MarketView(TypedDict, total=False):
    """What code adds to a subject when its turn begins."""

    regime: dict[str, Any]  # `models.market.Regime`, or `missing` with the reason
    # what became of names in the same state, by `tools.scoring.market_regime.rate_row`; none where no state is known
    baseRates: list[dict[str, Any]]


class ScreenerRule(TypedDict, total=False):
    """What a screener's subject has of the rule of a person's own lens. rule: its texts and hits; passed: in place of
    the texts, where code applied it to all names, each name that passes with its figures."""

    rule: dict[str, Any]
    passed: list[dict[str, Any]]


class ScreenerSubject(MarketView, ScreenerRule):
    """One shard of a universe, for one lens."""

    constraints: Constraints
    lens: str
    shard: int
    symbols: list[str]


class CandidateSubject(MarketView):
    """One candidate, as its run has it."""

    constraints: Constraints
    instrument: str
    symbol: str
    screenTheses: list[Thesis]


class ResearchSubject(CandidateSubject, total=False):
    """One candidate. memory: lines on what the desk concluded and did before. changed: the first thing that is not as
    it was for the role's last report."""

    memory: str | None
    changed: str


class SkepticSubject(ResearchSubject):
    """One candidate that is about to be rated BUY. theses: of its reports without their roles; pooled: what they come
    to."""

    theses: list[dict[str, Any]]
    pooled: dict[str, Any]


class ContractLimits(TypedDict):
    """Limits of a contract to write; as in `models.analysis.AnalysisRequest`, dte is its days."""

    maxDelta: float
    minWeeklyRoc: float
    dteMin: int
    dteMax: int


class AnalystSubject(CandidateSubject, total=False):
    """One candidate for an analyst. strategy, limits: of the contract to write; those who judge the share do not know
    of it. chart: the completed answer of the analyst before it (`models.analysis.ChartAnalysis`). memory: as of
    ResearchSubject."""

    strategy: Strategy
    limits: ContractLimits
    chart: dict[str, Any]
    memory: str | None
    changed: str


class SynthesisSubject(TypedDict):
    """The synthesis of one candidate's analyses, as code made it."""

    constraints: Constraints
    strategy: Strategy
    symbol: str
    synthesis: dict[str, Any]


class SignalRow(TypedDict):
    """A signal for code: its id, tool and owner, state, the probability of YES that it implies (or None), and its
    symbols or question ids; empty is all."""

    id: str
    tool: str
    owner: str
    state: str
    probability: float | None
    shift: float | None
    about: list[str]


class QuestionRow(TypedDict):
    """A question for code: its id, subjects, and the probability that is known without the board."""

    id: str
    about: list[str]
    baseline: float


class ForecastRow(TypedDict):
    """A voice's forecast of round 1, as the others see it in round 2."""

    voice: str
    question: str
    probability: float
    stake: float
    because: str
    cites: list[str]


class VoiceSubject(MarketView):
    """The board, for one voice in one round. board: its text. positions: empty in round 1. record: lines on the voice's
    own earlier forecasts, None without any."""

    constraints: Constraints
    voice: str
    board: str
    questions: list[QuestionRow]
    signals: list[SignalRow]
    record: str | None
    round: int
    positions: list[ForecastRow]


class VoiceDissent(TypedDict):
    """A voice far from the others on a question, with its reason."""

    voice: str
    probability: float
    because: str


class CitedFinding(TypedDict):
    """A signal that voices cited by citations that count, by so many of them."""

    id: str
    headline: str
    direction: str
    voices: int


class SymbolForecast(TypedDict):
    """What the voices made of one question: its text, the probability of YES that they came to together in the round
    that is used, the one known without them, and how many forecast it."""

    question: str
    probability: float
    baseline: float | None
    round: int
    voices: int
    dissent: list[VoiceDissent]
    signals: list[CitedFinding]


class AccountSubject(MarketView):
    """One account with the verdicts of a run. day: of the exchange, today; None where it is not known. stress: losses
    of the holdings, a `models.plans.Stress`."""

    constraints: Constraints
    limits: dict[str, float]
    account: str
    verdicts: list[JudgedSymbol]
    portfolio: dict[str, Any]
    notes: dict[str, list[str]]
    day: str | None
    stress: dict[str, Any] | None


class TraderSubject(AccountSubject, total=False):
    """One account. board: what the voices forecast of symbols, by symbol; only where a run had rounds of them."""

    board: dict[str, SymbolForecast]


def constraints(settings: Settings, capital: float | None = None) -> Constraints:
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
    lens: str,
    shard: int,
    symbols: Sequence[str],
    settings: Settings,
    capital: float | None = None,
    rule: ScreenerRule | None = None,
) -> ScreenerSubject:
    """rule: of a person's own lens, as of `rule_of`."""
    found = constraints(settings, capital)
    given: ScreenerSubject = {"constraints": found, "lens": lens, "shard": shard, "symbols": list(symbols)}
    return cast(ScreenerSubject, {**given, **(rule or {})})


def rule_of(lens: Lens, passed: Sequence[Mapping[str, Any]] | None) -> ScreenerRule:
    """Return what a screener's subject has of a lens's rule. passed: the rows of its names that pass, where code has
    looked already."""
    if passed is not None:
        return {"rule": {"hits": lens.hits}, "passed": [dict(one) for one in passed]}
    if not lens.where:
        return {}
    given = {"where": lens.where, "score": lens.score, "high": lens.high, "figures": list(lens.figures)}
    return {"rule": {**{name: value for name, value in given.items() if value}, "hits": lens.hits}}


def validator_subject(
    symbol: str, instrument: str, theses: Iterable[Thesis], settings: Settings, capital: float | None = None
) -> ResearchSubject:
    """theses: empty when no lens named the symbol. capital: as in `constraints`."""
    return {
        "constraints": constraints(settings, capital),
        "instrument": instrument,
        "symbol": symbol,
        "screenTheses": list(theses),
    }


def skeptic_subject(
    candidate: ResearchSubject, theses: Iterable[Mapping[str, Any]], pooled: Mapping[str, Any]
) -> SkepticSubject:
    """Return the subject of the skeptic: who said what is left out, of the pool too."""
    told = {name: value for name, value in pooled.items() if name not in ("rows", "invalidation_source")}
    return {**candidate, "theses": [dict(one) for one in theses], "pooled": told}


def analyst_subject(
    candidate: CandidateSubject,
    request: AnalysisRequest | None = None,
    earlier: Mapping[str, Mapping[str, Any]] | None = None,
) -> AnalystSubject:
    """Return the subject of one analyst's turn.

    candidate: as of `validator_subject`. request: of the contract to write; None for who judges the share. earlier:
    completed answers of the analysts before it, by role.
    """
    asked: dict[str, Any] = {}
    if request is not None:
        asked["strategy"] = request.strategy
        asked["limits"] = {
            "maxDelta": request.max_delta,
            "minWeeklyRoc": request.min_weekly_roc,
            "dteMin": request.min_days,
            "dteMax": request.max_days,
        }
    # What is alike for all candidates comes first: a provider keeps it.
    found = cast(AnalystSubject, {"constraints": candidate["constraints"], **asked, **candidate})
    for role, answer in (earlier or {}).items():
        found[role] = dict(answer)  # type: ignore[literal-required]
    return found


def research_subject(
    role: str,
    kind: type,
    symbol: str,
    payload: Mapping[str, Any],
    settings: Settings,
    earlier: Mapping[str, Mapping[str, Any]],
) -> ResearchSubject | SkepticSubject | AnalystSubject:
    """Return the subject of a report on a candidate, of the type that its role has (kind). payload: of its step, with
    instrument, theses and capital; for an analyst it may have `analysis`, an AnalysisRequest. earlier: as of
    `analyst_subject`."""
    found = validator_subject(symbol, payload["instrument"], payload["theses"], settings, payload["capital"])
    if kind is SkepticSubject:
        return skeptic_subject(found, **payload["argued"])
    if kind is not AnalystSubject:
        return found
    request = None
    if role in PLANNERS:
        asked = payload.get("analysis")
        request = AnalysisRequest.model_validate(asked) if asked is not None else own_request(settings)
    return analyst_subject(found, request, earlier)


def own_request(settings: Settings) -> AnalysisRequest:
    """Return what the options analyst is asked for where no person asked: a put that cash secures where the settings
    allow options, else shares."""
    return AnalysisRequest(strategy="csp" if settings.options_allowed else "equity")


def synthesis_subject(
    symbol: str, strategy: Strategy, synthesis: Mapping[str, Any], settings: Settings, capital: float | None = None
) -> SynthesisSubject:
    found = constraints(settings, capital)
    return {"constraints": found, "strategy": strategy, "symbol": symbol, "synthesis": dict(synthesis)}


def voice_subject(
    voice: str,
    number: int,
    text: str,
    questions: Iterable[BoardQuestion],
    signals: Iterable[Signal],
    settings: Settings,
    positions: Iterable[VoicePosition] = (),
    record: str | None = None,
) -> VoiceSubject:
    """Return the subject of a voice's turn. number: of the round. text: the board, as it is written for voices.
    questions: of the board; one without a baseline is not forecast, and left out. positions: of round 1, for round
    2. record: what code kept of the voice's earlier forecasts."""
    return {
        "constraints": constraints(settings),
        "voice": voice,
        "board": text,
        "questions": [
            {"id": one.label, "about": list(one.subjects), "baseline": one.baseline}
            for one in questions
            if one.baseline is not None
        ],
        "signals": [_signal_row(one) for one in signals],
        "record": record,
        "round": number,
        "positions": [_forecast_row(one) for one in positions],
    }


def _signal_row(one: Signal) -> SignalRow:
    moved = shift(one)
    return {
        "id": one.label, "tool": one.tool, "owner": one.owner, "state": one.state, "probability": one.probability,
        "shift": None if moved is None else round(moved, 4), "about": list(one.subjects),
    }  # fmt: skip


def _forecast_row(one: VoicePosition) -> ForecastRow:
    forecast = one.forecast
    return {
        "voice": one.voice,
        "question": forecast.question,
        "probability": forecast.probability,
        "stake": forecast.stake,
        "because": forecast.because,
        "cites": [cited.signal for cited in forecast.citations],
    }


STRICTEST = 3  # bounds of a size that a trader is told: one that another undercuts twice over decides nothing


def sizing_row(found: Sizing) -> dict[str, Any]:
    """Return a candidate's bounds for its trader: the most money of the strictest ones, and of each that is not known,
    which `missing` says why."""
    row = found.model_dump(mode="json", by_alias=True, exclude={"symbol", "bounds"})
    unknown = [one for one in found.bounds if one.most is None]
    known = sorted((one for one in found.bounds if one.most is not None), key=lambda one: one.most or 0.0)
    return {**row, "bounds": {one.rule: one.most for one in (*known[:STRICTEST], *unknown)}}


def trader_subject(
    account: str,
    verdicts: Iterable[JudgedSymbol],
    portfolio: Mapping[str, Any],
    settings: Settings,
    notes: Mapping[str, Sequence[str]] | None = None,
    board: Mapping[str, SymbolForecast] | None = None,
    day: dt.date | None = None,
    stress: Stress | None = None,
) -> TraderSubject:
    """Return the subject of the trader's turn.

    portfolio: as the tool portfolio_get returns it, {cash, equity, buyingPower, positions[{symbol, quantity,
    averageCost, marketPrice, priceDate, marketValue, share}]}; its buying power is the capital of the constraints.
    notes: by symbol, lines on its last decisions and their outcomes, oldest first. board: by symbol, what the voices
    forecast; without any the subject has none. day: of the exchange, today. stress: of the holdings.
    """
    own = constraints(settings, portfolio.get("buyingPower", portfolio.get("cash")))
    found: TraderSubject = {
        "constraints": own,
        "limits": {name: own[name] for name in ("maxOrderNotional", "maxSymbolShare", "cooldownHours")},
        "account": account,
        "day": None if day is None else day.isoformat(),
        "stress": None if stress is None else stress.model_dump(mode="json", by_alias=True),
        "verdicts": list(verdicts),
        "portfolio": dict(portfolio),
        "notes": {symbol: list(lines) for symbol, lines in (notes or {}).items()},
    }
    if board:
        found["board"] = dict(board)
    return found
