"""Canonical telemetry events of runs, turns and tool calls, for readers that count and chart them.

The names of events and fields, some in camelCase and some in snake_case, are those of the desk's first documents, so
that readers written for these go on working. A field without a value is omitted.
"""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import ConfigDict, Field

from chordesk.models.answers import Frozen, Usage
from chordesk.models.states import Mode, RunMode
from chordesk.models.tables.columns import utcnow


class Canonical(Frozen):
    """Fields of every event. at: UTC, the time of the event."""

    model_config = ConfigDict(populate_by_name=True)

    event: str
    at: dt.datetime = Field(default_factory=utcnow)
    run_id: str


class CandidateSeen(Frozen):
    """origin: screen, manual or position. confidence: None for one that no lens put forward."""

    symbol: str
    confidence: str | None
    origin: str


class RunCompleted(Canonical):
    """One mode's part of a run that has ended: a screen that went on to research and to a decision has three.

    state: the whole run's. duration_ms: from the start of the part's first step to the end of its last.
    errors: one line for each step that failed.
    """

    mode: RunMode
    state: str
    duration_ms: float
    symbols: list[str]
    candidate_count: int = Field(alias="candidateCount")
    turns: int
    tokens: Usage
    errors: list[str]


class ScreenerRunCompleted(RunCompleted):
    """A run that screened has ended.

    symbols: those put forward, by rank. screenerType: the lenses, by comma. universe, hits: number of symbols screened,
    and of times that a lens named one.
    """

    event: Literal["screener.run.completed"] = "screener.run.completed"
    mode: Literal["screener"] = "screener"
    screener_type: str = Field(alias="screenerType")
    candidates: list[CandidateSeen]
    universe: int
    hits: int


class ResearchRunCompleted(RunCompleted):
    """A run that researched has ended. rolesRun, skippedRoles: by symbol. verdicts: number of each rating."""

    event: Literal["research.run.completed"] = "research.run.completed"
    mode: Literal["research"] = "research"
    roles_run: dict[str, list[str]] = Field(alias="rolesRun")
    skipped_roles: dict[str, list[str]] = Field(alias="skippedRoles")
    verdicts: dict[str, int]


class TraderRunCompleted(RunCompleted):
    """A run with a trader's turn has ended.

    symbols: those of the decision. actions: number of each kind in it. orders: number that ended in each state.
    """

    event: Literal["trader.run.completed"] = "trader.run.completed"
    mode: Literal["trader"] = "trader"
    actions: dict[str, int]
    orders: dict[str, int]


class OfTurn(Canonical):
    """Base of the events of a turn. symbol: None where the role looks at more than one. thread_id, turn_id: the
    runtime's, None where it gave none."""

    mode: Mode
    role: str
    symbol: str | None = None
    thread_id: str | None = None
    turn_id: str | None = None


class CodexErrorEvent(OfTurn):
    """The provider or the runtime failed a call. will_retry: the runtime itself tries the same call again."""

    event: Literal["codex.error"] = "codex.error"
    kind: str
    error: str
    will_retry: bool


class CodexTurnFailed(OfTurn):
    """A turn ended without an answer that can be used. attempt: of its step."""

    event: Literal["codex.turn.failed"] = "codex.turn.failed"
    kind: str
    error: str
    attempt: int
    duration_ms: float


class UsageMissing(OfTurn):
    """The provider gave no usable count of tokens. fields: the figures that are missing."""

    event: Literal["codex.usage.missing"] = "codex.usage.missing"
    fields: list[str]


class ToolInvocation(OfTurn):
    """A tool call was answered. rogue: why its turn does not have that tool, as `models.answers.RogueKind`."""

    event: Literal["tool.invocation"] = "tool.invocation"
    name: str
    success: bool
    duration_ms: float
    rogue: str | None = None


class ReportGrounded(OfTurn):
    """The figures of a report's texts were looked for in the tool answers of its turn.

    figures, supported: number of all, and of those with a source. share: None without figures. unsupported: the first
    figures without one.
    """

    event: Literal["report.grounded"] = "report.grounded"
    figures: int
    supported: int
    share: float | None
    unsupported: list[str]


EVENTS: tuple[type[Canonical], ...] = (
    ScreenerRunCompleted,
    ResearchRunCompleted,
    TraderRunCompleted,
    CodexErrorEvent,
    CodexTurnFailed,
    UsageMissing,
    ToolInvocation,
    ReportGrounded,
)
