"""The policy of the chart analyst."""

from __future__ import annotations

from collections.abc import Sequence

from chordesk.agents.rulebook import thresholds as limits
from chordesk.agents.rulebook.case import Call, Case, Payload, number, shown
from chordesk.agents.rulebook.policies.analyst_texts import level_of, risk_text, row_of, summary_text
from chordesk.agents.rulebook.policies.validators import symbol_of
from chordesk.agents.rulebook.policy import policy
from chordesk.agents.rulebook.thresholds import Level

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
    return _chart_report(case, study, drawn is not None)


def _chart_report(case: Case, study: Payload, drawn: bool) -> Payload:
    trend, extension = study.get("trend") or {}, study.get("extension") or {}
    support, resistance = study.get("support") or [], study.get("resistance") or []
    levels = [level_of(limits.TREND_RULE, number(trend, "score"))]
    risks = [] if levels[0] is Level.CALM else [risk_text(limits.TREND_RULE, number(trend, "score"))]
    if case.subject.get("strategy") != "covered_call":
        levels.append(level_of(limits.EXTENSION_RULE, number(extension, "atr")))
        if levels[-1] is not Level.CALM:
            risks.append(risk_text(limits.EXTENSION_RULE, number(extension, "atr")))
    found = _TREND.get(str(trend.get("direction")), "neutral")
    if found == "bullish" and Level.CAUTION in levels:
        found = "neutral"
    # Of too few bars for a trend, those without a support may be all there is.
    if trend and study.get("support") == [] and case.subject.get("strategy") == "csp":
        levels.append(Level.REJECT)
        risks.append("Rule support: there is none below the close")
    lacking = [name for name in ("trend", "extension", "support") if not study.get(name)]
    lacking += [] if drawn else ["the picture"]
    return {
        "recommendation": "reject" if Level.REJECT in levels else found,
        "confidence": _confidence(lacking),
        "trendDirection": trend.get("direction"),
        "trendQuality": trend.get("quality"),
        "extensionRisk": extension.get("risk"),
        "support": _strongest(support),
        "resistance": _strongest(resistance),
        "confluence": [one["id"] for one in study.get("confluence") or []][: limits.LEVELS],
        "summary": summary_text(case, [*_trend_texts(study), *_level_texts(study)], lacking),
        "keyRisks": risks,
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
    """Return the ids of the levels with the most touches, of equals the nearest first."""
    return [one["id"] for one in sorted(levels, key=lambda one: -one["touches"])][: limits.LEVELS]
