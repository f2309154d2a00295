"""The policies of the validators: their rules for one candidate."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from chordesk.agents import first_calls
from chordesk.agents.rulebook import thresholds as limits
from chordesk.agents.rulebook.cases import PREFIX, Call, Case, Payload, calls_of, clip, number, policy, shown
from chordesk.agents.rulebook.policies.screeners import flat
from chordesk.agents.rulebook.thresholds import Level, Rule
from chordesk.agents.thesis_pooling import EVEN, PRICES
from chordesk.models.exchanges import days_a_year
from chordesk.models.thesis import MOST_POINTS, Thesis

# The thesis of a report whose evidence decides nothing of the share.
UNDECIDED: Payload = Thesis().model_dump(mode="json", by_alias=True)


@dataclass(frozen=True, slots=True)
class Remark:
    """A finding as a thesis has it. tool: whose answer it stands in."""

    text: str
    level: Level
    tool: str


def thesis_of(
    case: Case,
    remarks: Sequence[Remark],
    level: Level,
    *,
    levels: Iterable[tuple[str, float]] = (),
    close: float | None = None,
    atr: float | None = None,
    volatility: float | None = None,
    catalysts: Sequence[Payload] = (),
    forecasts: bool = True,
) -> Payload:
    """Return the thesis of a report. level: the gravest of its findings. levels: (id, price) of those that may prove it
    wrong; atr: average true range, in which a level that is too near the close is told. volatility: a year's, which
    without a base rate has the range of the move. forecasts: False of findings that bear on no direction, which state
    the range alone."""
    rate: Payload = next(iter(case.subject.get("baseRates") or ()), {})
    base = number(rate, "beatMedian")
    horizon = rate.get("horizon") or limits.HORIZON
    # Without a base rate half of all names beat their median.
    probability = round(_stepped(EVEN if base is None else base, limits.THESIS_STEPS[level]), 4) if forecasts else None
    way = _way(probability) if probability is not None else None
    move, low, high = _moves(rate, base, probability, volatility, int(horizon) / days_a_year(symbol_of(case)))
    return {
        "direction": way,
        "horizon": horizon,
        "probability": probability,
        "move": move if forecasts else None,
        "moveLow": low,
        "moveHigh": high,
        "entry": "at once" if way == "up" else None,
        "invalidation": _invalidation(way or "up", levels, close, atr),
        "catalysts": list(catalysts),
        "pointsFor": _points(case, remarks, calm=True),
        "pointsAgainst": _points(case, remarks, calm=False),
        "change": "a figure above that reaches its threshold" if way == "up" else "its figures below their thresholds",
    }


_TENTH = NormalDist().inv_cdf(0.9)


def _moves(
    rate: Payload, base: float | None, probability: float | None, volatility: float | None, years: float
) -> tuple[float | None, float | None, float | None]:
    """Return the move with its 10 and 90 % quantiles: the base rate's, moved by what the probability differs from it.

    Returns around the median of the names are taken as normal with the range of the base rate, else with the
    volatility over the horizon, of so many years, around 0; to beat the median with p is to be q(p) deviations above
    it, q of the normal distribution. None where neither is known.
    """
    move, low, high = (number(rate, name) for name in ("move", "moveLow", "moveHigh"))
    if base is None or move is None or low is None or high is None:
        if volatility is None or volatility <= 0:
            return None, None, None
        reach = _TENTH * volatility * math.sqrt(years)
        base, move, low, high = EVEN, 0.0, -reach, reach
    normal = NormalDist()
    chance = base if probability is None else probability
    shift = (normal.inv_cdf(chance) - normal.inv_cdf(base)) * (high - low) / (2 * _TENTH)
    low, move, high = (round(min(max(value + shift, -0.99), 10.0), 4) for value in (low, move, high))
    return move, low, high


def next_report(case: Case, day: object, tool: str) -> list[Payload]:
    """Return the next report as a catalyst of a thesis; nothing where its day is not known. tool: that has the day."""
    cite = case.cite(tool)
    return [{"event": "next report", "day": str(day), "source": cite}] if day and cite else []


def _way(probability: float) -> str:
    return "none" if probability == 0.5 else "up" if probability > 0.5 else "down"


def _stepped(probability: float, step: float) -> float:
    inside = min(max(probability, 0.01), 0.99)
    return 1 / (1 + math.exp(-math.log(inside / (1 - inside)) - step))


def _invalidation(
    way: str, levels: Iterable[tuple[str, float]], close: float | None, atr: float | None
) -> Payload | None:
    """Return the nearest level on the side where the thesis is wrong, an average true range or more from the close."""
    if close is None or way == "none":
        return None
    sign, least = (1 if way == "up" else -1), atr or 0.0
    beyond = [(sign * (close - price), id) for id, price in levels if sign * (close - price) > 0]
    far = [one for one in beyond if one[0] >= least] or beyond
    return {"level": min(far)[1], "event": None, "day": None} if far else None


def _points(case: Case, remarks: Sequence[Remark], *, calm: bool) -> list[Payload]:
    found = [one for one in remarks if (one.level is Level.CALM) == calm]
    cited = [(clip(one.text), case.cite(one.tool)) for one in found]
    return [{"text": text, "source": source} for text, source in cited if source is not None][:MOST_POINTS]


# Words are counted, never obeyed: a headline is outside text.
ADVERSE = re.compile(
    r"\b(bankrupt\w*|breach|cuts?|delist\w*|downgrade\w*|fraud|halt\w*|investigat\w*|lawsuit\w*|miss(?:es|ed)|"
    r"plunge\w*|probe\w*|recall\w*|resign\w*|restat\w*|subpoena\w*|sued|sues|warn\w*)\b",
    re.IGNORECASE,
)
_STANCE = {Level.CALM: "CONFIRMED", Level.CAUTION: "CAUTION", Level.REJECT: "REJECT"}


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule with a candidate's figure, None if missing."""

    rule: Rule
    value: float | None
    sessions: float | None = None  # the figure's sessions, if its name has no number
    among: int | None = None  # the total, for a count of some
    tool: str = "signals_get"  # whose answer it stands in

    @property
    def level(self) -> Level:
        return Level.CALM if self.value is None else self.rule.level(self.value)

    @property
    def text(self) -> str:
        if self.value is None:
            return f"{self.rule.title} missing"
        if self.rule.unit == "count" and self.value == 0:
            return f"no {self.rule.title}"
        of = f" of {shown(self.sessions, 'sessions')}" if self.sessions is not None else ""
        among = f" of {self.among}" if self.among is not None else ""
        title = f"{self.rule.title}{of} {shown(self.value, self.rule.unit)}{among}"
        if self.level is Level.CALM:
            return title
        # The threshold is a figure of the rule and of no tool answer: a text that names the level has only the latter.
        return f"{title} is {'unacceptable' if self.level is Level.REJECT else 'elevated'}"

    @property
    def remark(self) -> Remark:
        return Remark(self.text, self.level, self.tool)

    @property
    def risk(self) -> str:
        return f"Rule {self.rule.key}: {self.text}"


@policy("quick")
def quick(case: Case) -> Call | Payload:
    """Check the price figures: enough history, not overbought, no deep fall, no extreme volatility."""
    symbol = symbol_of(case)
    if call := case.next_call(calls_of(first_calls.quick(case.subject))):
        return call
    row = row_of(case.signals(), symbol)
    findings = _check(limits.QUICK_RULES, row)
    return _report(case, findings, [("price figures", bool(row))], ["signals_get"], thin=_thin(findings))


@policy("fundamentals")
def fundamentals(case: Case) -> Call | Payload:
    symbol = symbol_of(case)
    if call := case.next_call(calls_of(first_calls.fundamentals(case.subject))):
        return call
    company, tone = _company(case, symbol, limits.FUNDAMENTAL_RULES), _tone(case, symbol)
    evidence = [("company figures", _known(company)), ("headlines", tone.value is not None)]
    return _report(case, [*company, tone], evidence, ["company_get", "news_list"])


@policy("overview")
def overview(case: Case) -> Call | Payload:
    """Check the few figures that place a company: its valuation, margin and rating, and the trend of its price."""
    symbol = symbol_of(case)
    if call := case.next_call(calls_of(first_calls.overview(case.subject))):
        return call
    company = _company(case, symbol, limits.OVERVIEW_COMPANY_RULES)
    row = row_of(case.signals(), symbol)
    evidence = [("company figures", _known(company)), ("price figures", bool(row))]
    price = _check(limits.OVERVIEW_PRICE_RULES, row)
    return _report(case, [*company, *price], evidence, ["company_get", "signals_get"], thin=_thin(price))


@policy("risk")
def risk(case: Case) -> Call | Payload:
    """Check the figures of a loss: volatility, drawdown, distance from the high, gaps, volume spikes, true range."""
    symbol = symbol_of(case)
    if call := case.next_call(calls_of(first_calls.risk(case.subject))):
        return call
    row = row_of(case.signals(), symbol)
    detail = row_of(case.rows("technicals_get", "technicals"), symbol)
    price = _check(limits.RISK_RULES, row)
    findings = [*price, Finding(limits.ATR_RULE, _true_range_share(detail), tool="technicals_get")]
    evidence = [("price figures", bool(row)), ("indicators", bool(detail))]
    tools = ["signals_get", "technicals_get"]
    return _report(case, findings, evidence, tools, thin=_thin(price), forecasts=False)


@policy("catalyst")
def catalyst(case: Case) -> Call | Payload:
    """Check for adverse headlines and for a fall in the name's own last change; the next report is the catalyst."""
    symbol = symbol_of(case)
    plan = calls_of(first_calls.catalyst(case.subject))
    if call := case.next_call(plan):
        return call
    row = row_of(case.rows("sp500_movers", "asked"), symbol)
    record = row_of(case.rows("company_get", "companies"), symbol)
    counts = record.get("news", {})
    due = next_report(case, record.get("earnings", {}).get("earningsDate"), "company_get")
    findings = [_tone(case, symbol), *_figures([limits.DECLINE_RULE], row, "sp500_movers")]
    evidence = [("headlines", findings[0].value is not None), ("its last change", bool(row))]
    texts = [f"next report on {one['day']}" for one in due]
    if (count := number(counts, "headlines")) is not None:
        texts.append(f"{count:g} headlines since {counts.get('since')}")
    lacking = [] if due else ["earnings dates"]
    return _report(case, findings, evidence, [call.tool for call in plan], texts=texts, lacking=lacking, catalysts=due)


@policy("skeptic")
def skeptic(case: Case) -> Call | Payload:
    """Check the figures that speak against a rise: extension, volatility, volume, adverse headlines."""
    symbol = symbol_of(case)
    if call := case.next_call(calls_of(first_calls.skeptic(case.subject))):
        return call
    row = row_of(case.signals(), symbol)
    detail = row_of(case.rows("technicals_get", "technicals"), symbol)
    findings = [*_check(limits.SKEPTIC_RULES, row), _tone(case, symbol)]
    evidence = [
        ("price figures", bool(row)),
        ("indicators", bool(detail)),
        ("headlines", findings[-1].value is not None),
    ]
    return _report(case, findings, evidence, ["signals_get", "technicals_get", "news_list"])


def symbol_of(case: Case) -> str:
    return str(case.subject.get("symbol", ""))


def row_of(rows: Iterable[Payload], symbol: str) -> Payload:
    return next((row for row in rows if row.get("symbol") == symbol), {})


def _check(keys: Iterable[str], row: Payload) -> list[Finding]:
    return _figures([limits.SIGNAL_RULES[key] for key in keys], row)


def _figures(rules: Sequence[Rule], row: Payload, tool: str = "signals_get") -> list[Finding]:
    return [
        Finding(rule, number(row, rule.field), number(row, rule.length) if rule.length is not None else None, tool=tool)
        for rule in rules
    ]


def _company(case: Case, symbol: str, keys: Iterable[str]) -> list[Finding]:
    figures = flat(row_of(case.rows("company_get", "companies"), symbol))
    rules = [limits.FUNDAMENTAL_RULES[key] for key in keys]
    return [Finding(rule, number(figures, rule.field), tool="company_get") for rule in rules]


def _thin(findings: Sequence[Finding]) -> bool:
    return 2 * sum(finding.value is None for finding in findings) >= len(findings)


def _known(findings: Iterable[Finding]) -> bool:
    return any(finding.value is not None for finding in findings)


def _true_range_share(detail: Payload) -> float | None:
    atr, close = number(detail, "atr14"), number(detail, "close")
    return atr / close if atr is not None and close else None


def _tone(case: Case, symbol: str) -> Finding:
    if not case.has_data("news_list"):
        return Finding(limits.ADVERSE_NEWS_RULE, None, tool="news_list")
    rows = [row for row in case.rows("news_list", "headlines") if row.get("symbol") == symbol]
    adverse = sum(bool(ADVERSE.search(str(row.get("headline", "")))) for row in rows)
    return Finding(limits.ADVERSE_NEWS_RULE, adverse, among=len(rows), tool="news_list")


def _report(
    case: Case,
    findings: Sequence[Finding],
    evidence: Sequence[tuple[str, bool]],
    tools: Sequence[str],
    *,
    thin: bool = False,
    texts: Sequence[str] = (),
    lacking: Sequence[str] = (),
    catalysts: Sequence[Payload] = (),
    forecasts: bool = True,
) -> Payload:
    """Return the worst finding as the verdict; without any evidence, or with `thin` one, a CAUTION whose summary names
    the lack of it. evidence: the role's sources, each with True when it had data. Confidence is high when all of it was
    and no figure is missing, low when half of it or less was."""
    level = max((finding.level for finding in findings), default=Level.CALM)
    seen = [name for name, there in evidence if there]
    if (thin or not seen) and level is Level.CALM:
        level = Level.CAUTION
    texts = [*(finding.text for finding in findings if finding.value is not None), *texts]
    absent = [*(name for name, there in evidence if not there), *lacking]
    holes = [finding.rule.title for finding in findings if finding.value is None]
    return {
        "verdict": _STANCE[level],
        "confidence": _confidence(len(seen), len(evidence), bool(holes)),
        "summary": summary_text(case, texts, absent or holes, case.gaps(tools, symbol_of(case)) if absent else []),
        "keyRisks": [finding.risk for finding in findings if finding.level > Level.CALM],
        "thesis": _thesis(case, findings, level, catalysts, forecasts)
        if seen
        else {**UNDECIDED, "catalysts": list(catalysts)},
    }


def _thesis(
    case: Case, findings: Sequence[Finding], level: Level, catalysts: Sequence[Payload], forecasts: bool
) -> Payload:
    remarks = [finding.remark for finding in findings if finding.value is not None]
    detail = row_of(case.rows("technicals_get", "technicals"), symbol_of(case))
    prices = [(name, price) for name in PRICES if (price := number(detail, name)) is not None]
    close, atr = number(detail, "close"), number(detail, "atr14")
    volatility = number(row_of(case.signals(), symbol_of(case)), "volatility20")
    return thesis_of(
        case,
        remarks,
        level,
        levels=prices,
        close=close,
        atr=atr,
        volatility=volatility,
        catalysts=catalysts,
        forecasts=forecasts,
    )


def _confidence(seen: int, planned: int, holes: bool) -> str:
    if seen == planned and not holes:
        return "high"
    return "medium" if seen > 0 and 2 * seen >= planned else "low"


def summary_text(case: Case, texts: Sequence[str], lacking: Sequence[str], reasons: Sequence[str]) -> str:
    found = f"{PREFIX} {symbol_of(case)}: {'; '.join(texts) or 'no data to judge it by'}."
    because = f" ({'; '.join(reasons[:4])})" if reasons else ""
    return f"{found} Missing: {', '.join(lacking)}{because}." if lacking else found
