"""A symbol's dossier: all that one run made of it. The symbols of a run are written one by one too, a file each.

The names of its parts are those of research aggregators: artifacts are the reports of roles, structured is an answer as
its schema has it, memory is what the prompts of the run were given of the symbol's past.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from chordesk.models.answers import Frozen
from chordesk.tasks.documents.schema.parts import LineageStep, MissingItem, PriceChart
from chordesk.tasks.views.analyses import AnalysisRow
from chordesk.tasks.views.history.reports import ReportRow
from chordesk.tasks.views.run_view import ActionRow
from chordesk.tasks.workflows.portfolio import ExecutedRole, SkippedRole


class ToolUse(Frozen):
    """One tool call. has_data: its answer was more than a gap."""

    tool: str
    success: bool
    has_data: bool
    seconds: float


class RoleArtifact(ReportRow):
    """A role's report. claimed: the model's own confidence, where `confidence` is what counts; structured: the whole
    answer, as the schema `answer_schema` has it; unsupported: figures of its texts without a source, the first of them.

    counts: the verdict rests on it; earlier: it is an earlier run's. tokens, cost_usd: null where they are not known;
    pictures: digests of what its turn was shown.
    """

    claimed: str | None
    structured: dict[str, Any] | None
    answer_schema: str | None
    unsupported: list[str]
    counts: bool
    earlier: bool
    model: str
    codex_turn_id: str | None
    thread_id: str | None
    thread_reason: str | None
    tokens: int | None
    cost_usd: float | None
    seconds: float
    tools: list[ToolUse]
    pictures: list[str]
    page: str | None


class FillLine(Frozen):
    """A fill. price a share in account currency; at: market time."""

    id: str
    side: str
    quantity: float
    price: float
    commission: float
    at: dt.datetime


class OrderLine(Frozen):
    """An order with all that came of it. price, notional, payload_hash: of its preview, null before it. denied: why it
    was denied; approval: how a person decided, or that one has to."""

    id: str
    run_id: str
    symbol: str
    action: str
    side: str | None
    quantity: float | None
    contract: str | None
    order_type: str | None
    limit_price: float | None
    stop_price: float | None
    state: str
    denied: str | None
    price: float | None
    notional: float | None
    payload_hash: str | None
    approval: str | None
    fills: list[FillLine]
    market_at: dt.datetime
    page: str | None


class Dossier(Frozen):
    """A symbol in a run. combined_rating, combined_confidence: its verdict, null without one, and `missing` has why;
    rule: which rule gave it. probability: that the symbol beats the median, null until it is calibrated.

    summary_markdown: a short text made by code. prior_artifacts: reports of earlier runs of the account, the newest
    first. memory: null when there was nothing to remember, or memory was off. decision_log: a line for each recommended
    action. executed_roles_with_reasons, skipped_roles: of a run over the portfolio.
    """

    symbol: str
    name: str | None
    sector: str | None
    instrument: str
    origin: str
    rank: int
    confidence: str | None
    screeners: list[str]
    combined_rating: str | None
    combined_confidence: str | None
    probability: float | None
    rule: str | None
    verdict_id: str | None
    key_risks: list[str]
    summary_markdown: str
    memory: str | None
    artifacts: list[RoleArtifact]
    prior_artifacts: list[ReportRow]
    analysis: AnalysisRow | None
    executed_roles_with_reasons: list[ExecutedRole]
    skipped_roles: list[SkippedRole]
    decision_log: list[str]
    actions: list[ActionRow]
    orders: list[OrderLine]
    lineage: list[LineageStep]
    prices: PriceChart
    missing: list[MissingItem]
    page: str | None


class SymbolFile(Frozen):
    """A dossier as a file of its own. run_id, kind, state: of the run; market_now: its market's time."""

    format: str
    version: int
    run_id: str
    run_kind: str
    run_state: str
    market: str
    market_now: dt.datetime
    made_at: dt.datetime
    dossier: Dossier
