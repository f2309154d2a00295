"""The policies of the analysts (chart, options, research), and of the text around a synthesis."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from chordesk.agents.first_calls import HEADLINES
from chordesk.agents.rulebook import thresholds as limits
from chordesk.agents.rulebook.cases import PREFIX, Call, Case, Payload, number, policy, shown
from chordesk.agents.rulebook.policies.validators import (
    ADVERSE,
    UNDECIDED,
    Finding,
    Remark,
    next_report,
    row_of,
    summary_text,
    symbol_of,
    thesis_of,
)
from chordesk.agents.rulebook.thresholds import Level
from chordesk.models.analysis import WRITES
from chordesk.models.market import MODELLED


def _summary(case: Case, texts: Sequence[str], lacking: Sequence[str]) -> str:
    return summary_text(case, texts, lacking, case.gaps([], symbol_of(case)))


_OVERLAYS = ["levels", "fib", "trendlines", "swings", "sma50"]
_TREND = {"up": "bullish", "sideways": "neutral", "down": "bearish"}


@policy("chart")
def chart(case: Case) -> Call | Payload:
    """Check the trend and the distance from support; without a study nothing is drawn."""
    symbol, plan = symbol_of(case), [Call("chart_study_get", {"symbols": [symbol_of(case)]})]
    if not case.outputs or case.has_data("chart_study_get"):
        plan.append(Call("chart_render", {"symbols": [symbol], "overlays": _OVERLAYS}))
    if call := case.next_call(plan):
        return call
    study = row_of(case.rows("chart_study_get", "studies"), symbol)
    drawn = row_of(case.rows("chart_render", "charts"), symbol)
    return _chart_report(case, study, bool(drawn))


def _chart_report(case: Case, study: Payload, drawn: bool) -> Payload:
    trend, extension = study.get("trend") or {}, study.get("extension") or {}
    support, resistance = study.get("support") or [], study.get("resistance") or []
    findings = [
        Finding(limits.TREND_RULE, number(trend, "score")), Finding(limits.EXTENSION_RULE, number(extension, "atr")),
    ]  # fmt: skip
    levels = [one.level for one in findings]
    risks = [one.risk for one in findings if one.level is not Level.CALM]
    found = _TREND.get(str(trend.get("direction")), "neutral")
    if found == "bullish" and Level.CAUTION in levels:
        found = "neutral"
    lacking = [name for name in ("trend", "extension", "support") if not study.get(name)]
    lacking += [] if drawn else ["the picture"]
    known = [(str(one["id"]), float(one["price"])) for one in (*support, *resistance)]
    remarks = [Remark(one.text, one.level, "chart_study_get") for one in findings if one.value is not None]
    thesis = thesis_of(
        case, remarks, max(levels), levels=known, close=number(study, "close"), atr=number(study, "atr14")
    )
    return {
        "recommendation": "reject" if Level.REJECT in levels else found,
        "confidence": _confidence(lacking),
        "trendDirection": trend.get("direction"),
        "trendQuality": trend.get("quality"),
        "extensionRisk": extension.get("risk"),
        "support": _strongest(support),
        "resistance": _strongest(resistance),
        "confluence": [one["id"] for one in study.get("confluence") or []][: limits.LEVELS],
        "summary": _summary(case, [*_trend_texts(study), *_level_texts(study)], lacking),
        "keyRisks": risks,
        "thesis": thesis if study else UNDECIDED,
    }


def _confidence(lacking: Sequence[str]) -> str:
    if not lacking:
        return "high"
    return "low" if "trend" in lacking or len(lacking) > 1 else "medium"


def _trend_texts(study: Payload) -> list[str]:
    trend, adx = study.get("trend") or {}, number(study, "adx14")
    found = []
    if trend:
        quality = f", {trend['quality']}" if trend.get("quality") else ""
        slope, fit = number(trend, "slopeYear"), number(trend, "r2")
        found.append(f"trend {trend.get('direction')}{quality}")
        found += [f"slope {shown(slope, 'percent')} a year"] if slope is not None else []
        found += [f"fit {fit:.2f}"] if fit is not None else []
    return [*found, f"ADX {adx:.1f}"] if adx is not None else found


def _level_texts(study: Payload) -> list[str]:
    close, far = number(study, "close"), number(study.get("extension") or {}, "atr")
    found = [f"close {close:.2f}"] if close is not None else []
    found += [f"{far:.1f} average true ranges above support"] if far is not None else []
    for name in ("support", "resistance"):
        texts = (f"{one['id']} at {one['price']:.2f} ({one['strength']})" for one in (study.get(name) or [])[:2])
        found += [f"{name} {text}" for text in texts]
    return found


def _strongest(levels: Sequence[Payload]) -> list[str]:
    return [one["id"] for one in sorted(levels, key=lambda one: -one["touches"])][: limits.LEVELS]


_RANK = {"good": 0, "fair": 1, "unknown": 2}
_LEVELS = {"csp": ("support_levels", "confluence"), "covered_call": ("resistance_levels",)}
_NEEDED = ("strike", "dte", "bid", "ask", "mid", "delta", "rocWeekly", "breakEven")


@policy("options")
def options(case: Case) -> Call | Payload:
    """Choose the contract nearest to a level of the chart, of equals the more liquid and the better paid one."""
    symbol, strategy = symbol_of(case), str(case.subject.get("strategy"))
    plan = _chain_calls(case, symbol, strategy)
    if not case.outputs or case.has_data("option_chain_get"):
        plan.append(Call("volatility_get", {"symbols": [symbol]}))
    if call := case.next_call(plan):
        return call
    volatility = row_of(case.rows("volatility_get", "volatilities"), symbol)
    if strategy not in WRITES:
        return _share_report(case, volatility)
    rows = [row for row in case.rows("option_chain_get", "contracts") if _usable(row)]
    return _contract_report(case, sorted(rows, key=_preference), volatility)


def _chain_calls(case: Case, symbol: str, strategy: str) -> list[Call]:
    """Return the calls for contracts: near the chart's levels, and where none is there, anywhere."""
    bounds = case.subject.get("limits") or {}
    asked: Payload = {"symbols": [symbol], "limit": limits.CHAIN_ROWS, "kind": WRITES.get(strategy, "put")}  # type: ignore[call-overload]
    if strategy not in WRITES:
        return [Call("option_chain_get", asked)]
    asked |= {
        "dteMin": bounds["dteMin"],
        "dteMax": bounds["dteMax"],
        "deltaMin": min(limits.LEAST_DELTA, bounds["maxDelta"]),
        "deltaMax": bounds["maxDelta"],
        "minWeeklyRoc": bounds["minWeeklyRoc"],
        "maxWeeklyRoc": max(limits.MOST_WEEKLY_ROC, bounds["minWeeklyRoc"]),
    }
    near = _near(case, strategy)
    if not near:
        return [Call("option_chain_get", asked)]
    calls = [Call("option_chain_get", {**asked, "near": near})]
    if case.outputs and case.has_data("option_chain_get") and not _first_rows(case):
        calls.append(Call("option_chain_get", asked))
    return calls


def _first_rows(case: Case) -> list[Any]:
    first = next(iter(case.payloads("option_chain_get")), {})
    found = first.get("contracts")
    return found if isinstance(found, list) else []


def _near(case: Case, strategy: str) -> list[float]:
    """Supports at or below the close for a put, resistances at or above it for a call."""
    found = case.subject.get("chart")
    known = found if isinstance(found, dict) else {}
    close = number(known, "close")
    prices = [number(one, "price") for name in _LEVELS[strategy] for one in known.get(name) or []]
    kept = [price for price in prices if price is not None and price > 0 and _on_side(price, close, strategy)]
    return list(dict.fromkeys(kept))[:10]


def _on_side(price: float, close: float | None, strategy: str) -> bool:
    return close is None or (price <= close if strategy == "csp" else price >= close)


def _usable(row: Payload) -> bool:
    """Every figure that a choice needs is known; the liquidity of a modelled contract cannot be known."""
    known = all(number(row, name) is not None for name in _NEEDED)
    liquid = row.get("liquidity") in ("good", "fair")
    return known and (liquid or (row.get("liquidity") == "unknown" and row.get("source") == MODELLED))


def _preference(row: Payload) -> tuple[bool, float, int, float, str]:
    """A sort key: strikes behind their level first, then the nearest, more liquid, better paid ones."""
    away, weekly = number(row, "fromLevel") or 0.0, number(row, "rocWeekly")
    return (
        away > 0 if row.get("kind") == "put" else away < 0,
        abs(away),
        _RANK.get(str(row.get("liquidity")), 3),
        -(weekly or 0.0),
        str(row["contract"]),
    )


def _contract_report(case: Case, rows: Sequence[Payload], volatility: Payload) -> Payload:
    ratio = number(volatility, "ivHvRatio")
    premium = Finding(limits.PREMIUM_RULE, ratio)
    risks = [] if premium.level is Level.CALM else [premium.risk]
    texts = _volatility_texts(volatility)
    best = rows[0] if rows and premium.level is not Level.REJECT else None
    if best is None:
        texts.insert(0, "the premium is too poor to write" if rows else "no contract fits the limits and can be traded")
    else:
        texts = [*_contract_texts(best), *texts]
        if best["source"] == MODELLED:
            risks.append("Rule modelled: the quotes are a model's, not a market's")
    lacking = [] if ratio is not None else ["implied over realised volatility"]
    return {
        "recommendation": "reject" if best is None else "select",
        "confidence": _contract_confidence(best, lacking),
        "contract": best["contract"] if best is not None else None,
        "alternatives": [row["contract"] for row in rows[1 : 1 + limits.ALTERNATIVES]] if best is not None else [],
        "premiumQuality": _premium(ratio),
        "summary": _summary(case, texts, lacking),
        "keyRisks": risks,
        "thesis": UNDECIDED,
    }


def _contract_confidence(best: Payload | None, lacking: Sequence[str]) -> str:
    if best is None:
        return "medium"
    if best["source"] == MODELLED or "fromLevel" not in best:
        return "low"
    return "high" if best.get("liquidity") == "good" and not lacking else "medium"


def _contract_texts(row: Payload) -> list[str]:
    alone = " of the call alone" if row["kind"] == "call" else ""
    found = [
        f"{row['contract']}, {row['kind']} at {row['strike']:.2f} until {row['expiry']} ({row['dte']} days)",
        f"premium {row['mid']:.2f}",
        f"delta {row['delta']:.2f}",
        f"{row['rocWeekly']:.2%} a week on capital",
        f"break-even{alone} {row['breakEven']:.2f}",
        f"liquidity {row['liquidity']}",
    ]
    if (level := number(row, "level")) is not None:
        found.insert(1, f"nearest to the level {level:.2f}")
    if (chance := number(row, "pop")) is not None:
        found.append(f"probability of profit{alone} {shown(chance, 'percent')}")
    return found


def _volatility_texts(row: Payload) -> list[str]:
    titles = (("iv", "implied volatility"), ("hv20", "realised volatility"))
    found = [f"{title} {shown(value, 'percent')}" for name, title in titles if (value := number(row, name)) is not None]
    if (ratio := number(row, "ivHvRatio")) is not None:
        found.append(f"their ratio {ratio:.2f}")
    more = (("putSkew", "put skew"), ("termSlope", "term slope"), ("ivRank", "implied rank"))
    found += [f"{title} {shown(value, 'percent')}" for name, title in more if (value := number(row, name)) is not None]
    return found


def _premium(ratio: float | None) -> str | None:
    if ratio is None:
        return None
    return "rich" if ratio >= limits.PREMIUM_RICH else "fair" if ratio >= limits.PREMIUM_FAIR else "poor"


def _share_report(case: Case, volatility: Payload) -> Payload:
    findings = [Finding(rule, number(volatility, rule.field)) for rule in limits.OPTION_RULES.values()]
    lacking = [one.rule.title for one in findings if one.value is None]
    levels = [one.level for one in findings]
    risks = [one.risk for one in findings if one.level is not Level.CALM]
    texts = [one.text for one in findings if one.value is not None]
    return {
        "recommendation": "reject" if Level.REJECT in levels else "select",
        "confidence": "low" if lacking else "medium",
        "contract": None,
        "alternatives": [],
        "premiumQuality": _premium(number(volatility, "ivHvRatio")),
        "summary": _summary(case, texts, lacking),
        "keyRisks": risks,
        "thesis": _share_thesis(case, findings, max(levels)),
    }


def _share_thesis(case: Case, findings: Sequence[Finding], level: Level) -> Payload:
    remarks = [Remark(one.text, one.level, "volatility_get") for one in findings if one.value is not None]
    return thesis_of(case, remarks, level) if remarks else UNDECIDED


_RISK = {Level.CALM: "low", Level.CAUTION: "moderate", Level.REJECT: "high"}
_SEVERE = re.compile(r"\b(bankrupt\w*|delist\w*|fraud|halt\w*|insolven\w*|restat\w*)\b", re.IGNORECASE)


@policy("research")
def research(case: Case) -> Call | Payload:
    """Check headlines, the days to the next report, and short interest; what is unknown stays so."""
    symbol = symbol_of(case)
    one = {"symbols": [symbol]}
    plan = [
        Call("news_list", {**one, "limit": HEADLINES}),
        Call("earnings_dates", {**one, "limit": 0}),
        Call("short_interest", one),
    ]
    if call := case.next_call(plan):
        return call
    news, severe, dates = _news(case, symbol)
    earnings, due = _earnings(case, symbol)
    texts, risks = [], []
    if news is not None:
        texts.append(f"adverse headlines of {', '.join(dates)}" if dates else "no adverse headline")
        risks += ["Rule adverse_news: see the headlines of these days"] if dates else []
    if earnings is not None:
        texts.append(due)
        risks += [f"Rule earnings: {due}"] if earnings != "low" else []
    shorts, short = _shorts(case, symbol)
    if shorts is not None:
        texts.append(short)
        risks += [f"Rule {limits.SHORT_RULE.key}: {short}"] if shorts != "low" else []
    lacking = [
        name for name, value in (("headlines", news), ("earnings date", earnings), ("short interest", shorts))
        if value is None
    ]  # fmt: skip
    return {
        "recommendation": "reject" if severe else "pass",
        "confidence": "high" if not lacking else "medium" if len(lacking) == 1 else "low",
        "newsRisk": news,
        "earningsRisk": earnings,
        "shortInterestRisk": shorts,
        "summary": _summary(case, texts, lacking),
        "keyRisks": risks,
        "thesis": _research_thesis(case, {"news_list": news, "short_interest": shorts}, severe, symbol),
    }


_GRAVITY = {"low": Level.CALM, "moderate": Level.CAUTION, "high": Level.CAUTION}
_TOPICS = {"news_list": "adverse headlines", "short_interest": "short interest"}


def _research_thesis(case: Case, risks: Mapping[str, str | None], severe: bool, symbol: str) -> Payload:
    """Return the thesis of what is known; the next report is its catalyst, and says nothing of a direction."""
    remarks = [
        Remark(f"the risk of {_TOPICS[tool]} is {risk}", _GRAVITY[risk], tool) for tool, risk in risks.items() if risk
    ]
    due = next_report(case, _coming(case, symbol).get("date"), "earnings_dates")
    level = Level.REJECT if severe else max((one.level for one in remarks), default=Level.CALM)
    return thesis_of(case, remarks, level, catalysts=due) if remarks else {**UNDECIDED, "catalysts": due}


def _news(case: Case, symbol: str) -> tuple[str | None, bool, list[str]]:
    """Risk, whether headlines reject, days of adverse ones. Headlines are counted, never quoted: they are outside
    text."""
    if not case.has_data("news_list"):
        return None, False, []
    rows = [row for row in case.rows("news_list", "headlines") if row.get("symbol") == symbol]
    adverse = [row for row in rows if ADVERSE.search(str(row.get("headline", "")))]
    severe = sum(bool(_SEVERE.search(str(row.get("headline", "")))) for row in rows)
    level = limits.ADVERSE_NEWS_RULE.level(len(adverse))
    risk = _RISK[level]
    days = sorted({str(row.get("publishedAt", ""))[:10] for row in adverse})
    return risk, limits.SEVERE_NEWS_RULE.level(severe) is Level.REJECT, days


def _earnings(case: Case, symbol: str) -> tuple[str | None, str]:
    """Return the risk of the next report, and its text."""
    coming = _coming(case, symbol)
    if not coming.get("date"):
        return None, ""
    text = f"next report on {coming['date']}"
    level = Finding(limits.EARNINGS_RULE, number(coming, "daysUntil")).level
    return ("low" if level is Level.CALM else "moderate"), text


def _coming(case: Case, symbol: str) -> Payload:
    return row_of(case.rows("earnings_dates", "earnings"), symbol).get("next") or {}


def _shorts(case: Case, symbol: str) -> tuple[str | None, str]:
    row = row_of(case.rows("short_interest", "shortInterest"), symbol)
    share = number(row, limits.SHORT_RULE.field)
    if share is None:
        return None, ""
    risk = _RISK[limits.SHORT_RULE.level(share)]
    return risk, f"{limits.SHORT_RULE.title} {shown(share, limits.SHORT_RULE.unit)} on {row.get('date')}"


@policy("synthesis")
def synthesis(case: Case) -> Call | Payload:
    found = case.subject.get("synthesis")
    made: Mapping[str, Any] = found if isinstance(found, dict) else {}
    contract = f", {made['contract']}" if made.get("contract") else ""
    strategy = case.subject.get("strategy")
    reasons = [str(text) for text in made.get("reasons") or []]
    checks = [str(one.get("text")) for one in made.get("checks") or [] if isinstance(one, dict)]
    texts = "; ".join(text.rstrip(".") for text in (*reasons, *checks)) or "nothing else is stated"
    return {
        "headline": f"{PREFIX} {made.get('recommendation')} {symbol_of(case)} for {strategy}{contract}.",
        "summary": f"{PREFIX} {texts}.",
        "keyRisks": [str(risk) for risk in made.get("key_risks") or made.get("keyRisks") or []],
    }
