"""The policy of the options analyst."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chordesk.agents.rulebook import thresholds as limits
from chordesk.agents.rulebook.case import Call, Case, Payload, number, shown
from chordesk.agents.rulebook.policies.analyst_texts import level_of, risk_text, row_of, summary_text
from chordesk.agents.rulebook.policies.validators import symbol_of
from chordesk.agents.rulebook.policy import policy
from chordesk.agents.rulebook.thresholds import Level
from chordesk.models.analysis import WRITES
from chordesk.models.contracts import MODELLED

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
    """Return the prices of the chart's levels at which the strategy writes: supports at or below the close for a put,
    resistances at or above it for a call."""
    found = case.subject.get("chart")
    known = found if isinstance(found, dict) else {}
    close = number(known, "close")
    prices = [number(one, "price") for name in _LEVELS[strategy] for one in known.get(name) or []]
    kept = [price for price in prices if price is not None and price > 0 and _on_side(price, close, strategy)]
    return list(dict.fromkeys(kept))[:10]


def _on_side(price: float, close: float | None, strategy: str) -> bool:
    return close is None or (price <= close if strategy == "csp" else price >= close)


def _usable(row: Payload) -> bool:
    """Return whether every figure that a choice needs is known and the contract can be traded; the liquidity of a
    modelled one cannot be known."""
    known = all(number(row, name) is not None for name in _NEEDED)
    liquid = row.get("liquidity") in ("good", "fair")
    return known and (liquid or (row.get("liquidity") == "unknown" and row.get("source") == MODELLED))


def _preference(row: Payload) -> tuple[bool, float, int, float, str]:
    """Return a sort key: strikes behind their level first, seen from the price; then those nearest to it, the more
    liquid and the better paid ones."""
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
    level = level_of(limits.PREMIUM_RULE, ratio)
    risks = [] if level is Level.CALM else [risk_text(limits.PREMIUM_RULE, ratio)]
    texts = _volatility_texts(volatility)
    best = rows[0] if rows and level is not Level.REJECT else None
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
        "summary": summary_text(case, texts, lacking),
        "keyRisks": risks,
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
    return found


def _premium(ratio: float | None) -> str | None:
    if ratio is None:
        return None
    return "rich" if ratio >= limits.PREMIUM_RICH else "fair" if ratio >= limits.PREMIUM_FAIR else "poor"


def _share_report(case: Case, volatility: Payload) -> Payload:
    """Return the report on a share alone: implied volatility and skew, no contract."""
    values = [(rule, number(volatility, rule.field)) for rule in limits.OPTION_RULES.values()]
    lacking = [rule.title for rule, value in values if value is None]
    levels = [level_of(rule, value) for rule, value in values]
    risks = [risk_text(rule, value) for rule, value in values if level_of(rule, value) is not Level.CALM]
    texts = [f"{rule.title} {shown(value, rule.unit)}" for rule, value in values if value is not None]
    return {
        "recommendation": "reject" if Level.REJECT in levels else "select",
        "confidence": "low" if lacking else "medium",
        "contract": None,
        "alternatives": [],
        "premiumQuality": _premium(number(volatility, "ivHvRatio")),
        "summary": summary_text(case, texts, lacking),
        "keyRisks": risks,
    }
