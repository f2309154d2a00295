"""Analyses: what code concluded of the analysts' reports on a symbol, and the text that a model wrote around it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, Column, UniqueConstraint
from sqlmodel import Field

from chordesk.models.tables.columns import Dated, Identified


class Analysis(Identified, Dated, table=True):
    """The synthesis of one symbol's reports; the reports are those of its verdict.

    contract: OCC symbol of the contract to write, null unless one was named. figures: of the chart, the contract and
    the research, as the reports have them. checks: rows of `models.analysis.AnalysisCheck`. reasons: why it is no
    select. turn_id, headline, summary, author, grounding: of the text, null without one; grounding: the source of each
    figure in it.
    """

    __table_args__ = (UniqueConstraint("run_id", "symbol"),)

    run_id: str = Field(foreign_key="run.id", index=True)
    candidate_id: str = Field(foreign_key="candidate.id", index=True)
    verdict_id: str = Field(foreign_key="verdict.id", index=True)
    symbol: str
    strategy: str
    recommendation: str
    rating: str
    confidence: str
    contract: str | None = None
    figures: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    checks: list[dict[str, Any]] = Field(default_factory=list, sa_type=JSON)
    reasons: list[str] = Field(default_factory=list, sa_type=JSON)
    key_risks: list[str] = Field(default_factory=list, sa_type=JSON)
    turn_id: str | None = Field(default=None, foreign_key="turn.id", index=True)
    headline: str | None = None
    summary: str | None = None
    author: str | None = None
    grounding: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True)))
