"""Reports on a candidate: a validator's answer, a role's report as the verdict has it, and the verdict."""

from __future__ import annotations

import datetime as dt

from pydantic import Field

from chordesk.models.answers import Confidence, Frozen, Rating, ReportStatus, Stance, Wire
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
