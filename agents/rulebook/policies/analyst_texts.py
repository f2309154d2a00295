"""Texts of the analysts' policies. Each figure in one is a figure of a tool answer of the turn, printed so that it can
be found there; thresholds are not printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chordesk.agents.rulebook.case import PREFIX, Case, Payload, shown
from chordesk.agents.rulebook.policies.validators import symbol_of
from chordesk.agents.rulebook.thresholds import Level, Rule


def row_of(rows: Iterable[Payload], symbol: str) -> Payload:
    return next((row for row in rows if row.get("symbol") == symbol), {})


def level_of(rule: Rule, value: float | None) -> Level:
    return Level.CALM if value is None else rule.level(value)


def risk_text(rule: Rule, value: float | None) -> str:
    return f"Rule {rule.key}: {rule.title} {shown(value or 0.0, rule.unit)}"


def summary_text(case: Case, texts: Sequence[str], lacking: Sequence[str]) -> str:
    """Return the texts after the rulebook's prefix, and what is missing with the tools' reasons."""
    found = f"{PREFIX} {symbol_of(case)}: {'; '.join(texts) if texts else 'no data to judge it by'}."
    if not lacking:
        return found
    reasons = case.gaps([], symbol_of(case))
    because = f" ({'; '.join(reasons[:4])})" if reasons else ""
    return f"{found} Missing: {', '.join(lacking)}{because}."
