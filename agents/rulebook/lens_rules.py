"""A person's own lens on rules: its rule on the figures that a turn's tools answered."""

from __future__ import annotations

from typing import Any

from chordesk.agents.rulebook.cases import Call, Case, Payload, symbols_of
from chordesk.tools.lenses.figures import FIGURES, panel_of_rows
from chordesk.tools.lenses.files import Lens
from chordesk.tools.lenses.rules import ruled


def _lens(case: Case, rule: Payload) -> Lens:
    given: dict[str, Any] = {name: str(rule.get(name) or "") for name in ("where", "score", "high")}
    figures = tuple(name for name in rule.get("figures") or () if name in FIGURES)
    return Lens(
        name=str(case.subject.get("lens")), text="", words="", purpose="", universe="", tools=None,
        hits=int(rule.get("hits") or 6), by="rule", figures=figures, **given,
    )  # fmt: skip


def calls_of(case: Case, rule: Payload) -> list[Call]:
    """Return the calls whose answers have the figures of the rule, after the one that code makes for each screener."""
    symbols = symbols_of(case.subject)
    parts = sorted({FIGURES[name].part for name in _lens(case, rule).used})
    calls = [Call("signals_get", {"symbols": symbols})]
    company = [part for part in parts if part != "prices"]
    return [*calls, Call("company_get", {"symbols": symbols, "parts": company})] if company else calls


def ruled_rows(case: Case, rule: Payload) -> list[Payload]:
    """Return the rows of the names that pass, the best first, at most as many as the lens has hits."""
    lens, symbols = _lens(case, rule), symbols_of(case.subject)
    rows: dict[str, Payload] = {str(row.get("symbol")): dict(row) for row in case.signals()}
    for row in case.rows("company_get", "companies"):
        own = rows.setdefault(str(row.get("symbol")), {})
        for part in ("fundamentals", "earnings", "ratings"):
            own |= row.get(part) or {}
    return [one.row() for one in ruled(lens, panel_of_rows(symbols, rows, lens.used)).passed[: lens.hits]]
