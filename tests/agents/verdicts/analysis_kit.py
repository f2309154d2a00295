"""Reports of analysts for the synthesis, as code completed them."""

from __future__ import annotations

from typing import Any

from chordesk.models.analysis import RoleReport
from chordesk.models.answers import Confidence, ReportStatus, Stance

PUT = "HAL100917P00026000"
CALL = "HAL100917C00031000"


def level(id: str, price: float, touches: int | None = 2) -> dict[str, Any]:
    return {"id": id, "type": "support", "price": price, "touches": touches, "strength": "moderate", "members": []}


def chart(**changes: Any) -> dict[str, Any]:
    """Return a chart report's answer: close 28.43 over supports at 27.25 and 24.26."""
    made = {
        "recommendation": "bullish",
        "close": 28.43,
        "atr14": 0.8,
        "adx14": 20.9,
        "extension": {"atr": 1.1, "risk": "low"},
        "support_levels": [level("S1", 27.25, 4), level("S2", 24.26, 1)],
        "resistance_levels": [level("R1", 29.08), level("R2", 30.15)],
        "confluence": [],
    }
    return {**made, **changes}


def options(**changes: Any) -> dict[str, Any]:
    """Return an options report's answer: the put at 26 of a market's quotes."""
    made = {
        "recommendation": "select",
        "strategy": "csp",
        "contract": PUT,
        "best_strike": 26.0,
        "best_expiration": "2010-09-17",
        "dte": 36,
        "bid": 0.68,
        "ask": 0.73,
        "premium": 0.705,
        "weekly_roc": 0.0053,
        "delta": -0.248,
        "liquidity_score": "good",
        "source": "far",
    }
    return {**made, **changes}


def research(**changes: Any) -> dict[str, Any]:
    made = {
        "recommendation": "pass",
        "news_risk": "low",
        "earnings_risk": "low",
        "short_interest_risk": None,
        "earnings_date": "2010-10-20",
    }
    return {**made, **changes}


def report(role: str, **changes: Any) -> RoleReport:
    made: dict[str, Any] = {
        "role": role,
        "status": ReportStatus.COMPLETED,
        "verdict": Stance.CONFIRMED,
        "confidence": Confidence.HIGH,
        "summary": f"The {role} is fine.",
    }
    return RoleReport(**{**made, **changes})


def reports(**changes: dict[str, Any]) -> list[RoleReport]:
    """Return the reports of all three analysts, completed and confirmed; changes: of their fields, by role."""
    return [report(role, **changes.get(role, {})) for role in ("chart", "research", "options")]


ANSWERS = {"chart": chart(), "options": options(), "research": research()}
