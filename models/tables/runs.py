"""The tables. Times are UTC without offset in the database; `Utc` columns return them timezone-aware.

Lineage: order -> preview -> decision -> verdict -> reports -> turn -> thread, and candidate -> screen hits -> turn.
The foreign keys of that chain are never null, and nothing cascades: a row that another one refers to cannot be deleted.
"""

import datetime as dt
from typing import Any

from sqlalchemy import JSON, CheckConstraint, Column, ColumnElement, Index, LargeBinary, UniqueConstraint, func
from sqlmodel import Field, col

from chordesk.models.exchanges import HOME
from chordesk.models.tables.columns import Dated, DeskTable, Identified, Utc, utcnow


def _tokens() -> Any:
    """Return a field of tokens, 0 if not given. Its column has no default: that would replace a None."""
    return Field(default=0, sa_column_kwargs={"default": None})


class Run(Identified, table=True):
    """One execution of a workflow.

    settings: those of the desk that it was opened with, or adopted by, without secrets; null in runs of versions before
    0009. regime: `models.market.Regime` of its market on its day, or `missing` with the reason; null before a turn.
    """

    __table_args__ = (
        UniqueConstraint("schedule", "slot"),
        Index("ix_run_parent_run_id", "parent_run_id", "created_at", "id"),
    )

    kind: str
    state: str = Field(index=True)
    account: str
    provider: str
    model: str
    market: str
    market_now: dt.datetime = Field(sa_type=Utc)
    params: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    settings: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True)))
    regime: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True)))
    notes: list[str] = Field(default_factory=list, sa_type=JSON)
    summary: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    schedule: str | None = None
    slot: str | None = None
    parent_run_id: str | None = Field(default=None, foreign_key="run.id")
    created_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc, index=True)
    deadline_at: dt.datetime = Field(sa_type=Utc)
    finished_at: dt.datetime | None = Field(default=None, sa_type=Utc)


def exchange_of_run(run: Run) -> str:
    """Return the code of a run's exchange; New York's of one without a setting of it, as all runs were."""
    return str((run.settings or {}).get("exchange", HOME))


def research_run(run: Run) -> str:
    return str(run.params.get("source_run") or run.id)


class Step(Identified, Dated, table=True):
    """One task's worth of a run: its owner, the end of its lease, and the step that waits for it.

    pending counts the children that are not final; the transaction that takes it to 0 makes the step ready.
    """

    __table_args__ = (
        UniqueConstraint("run_id", "kind", "subject", "role"),
        Index("ix_step_due", "state", "due_at"),
        Index("ix_step_parent_id", "parent_id", "state"),
        CheckConstraint("pending >= 0", name="ck_step_pending"),
    )

    run_id: str = Field(foreign_key="run.id", index=True)
    parent_id: str | None = Field(default=None, foreign_key="step.id")
    kind: str
    subject: str = ""
    role: str = ""
    state: str
    pending: int = 0
    attempt: int = 0
    max_attempts: int = 3
    owner: str | None = None
    lease_until: dt.datetime | None = Field(default=None, sa_type=Utc)
    due_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)
    sent_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    sends: int = 0
    payload: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    result: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    error: str | None = None
    started_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    claimed_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    finished_at: dt.datetime | None = Field(default=None, sa_type=Utc)


class Attempt(Identified, table=True):
    """One attempt at a step that has ended: its owner, its duration, its outcome and the reason.

    Written by the transaction that ends it; for a lost worker, by the process that takes the step over or fails it.
    """

    step_id: str = Field(foreign_key="step.id", index=True)
    attempt: int
    owner: str
    started_at: dt.datetime = Field(sa_type=Utc)
    ended_at: dt.datetime = Field(sa_type=Utc)
    outcome: str
    reason: str | None = None


class Sweep(DeskTable, table=True):
    """The sweep's one row: its owner, the end of its lease, the end of the last sweep and its counts.

    redis_mark is the value the sweep left in Redis; a different one there, or none, means that Redis lost its messages.
    A step's expired lease means a lost worker only between trusted_from and trusted_until (null: no bound).
    """

    __table_args__ = (CheckConstraint("id = 1", name="ck_sweep_single"),)

    id: int = Field(default=1, primary_key=True)
    owner: str | None = None
    lease_until: dt.datetime | None = Field(default=None, sa_type=Utc)
    last_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    found: dict[str, int] = Field(default_factory=dict, sa_type=JSON)
    redis_mark: str | None = None
    trusted_from: dt.datetime | None = Field(default=None, sa_type=Utc)
    trusted_until: dt.datetime | None = Field(default=None, sa_type=Utc)


class Turn(Identified, table=True):
    """One turn on one thread. attempt: of its step; 0 of a question that a person asked in a fork of the thread later.
    thread_id and codex_turn_id are the runtime's own ids. Tokens are null where the provider gave no usable figure.
    cost_usd: as the runtime knows it, null where only the list of prices can estimate it. way: how the answer's schema
    and the tools were put to a server, where the runtime had to choose."""

    # Budgets are summed before each turn: from an index alone.
    __table_args__ = (
        Index("ix_turn_run_tokens", "run_id", "total_tokens"),
        Index("ix_turn_id_tokens", "id", "total_tokens"),
    )

    run_id: str = Field(foreign_key="run.id")
    step_id: str = Field(foreign_key="step.id", index=True)
    attempt: int
    ordinal: int
    role: str
    subject: str
    thread_id: str | None = Field(default=None, index=True)
    thread_reason: str | None = None
    codex_turn_id: str | None = None
    kept: bool
    provider: str
    model: str
    status: str
    outcome: str
    failure_kind: str | None = None
    text: str = ""
    input_tokens: int | None = _tokens()
    cached_input_tokens: int | None = _tokens()
    output_tokens: int | None = _tokens()
    reasoning_tokens: int | None = _tokens()
    total_tokens: int | None = _tokens()
    cost_usd: float | None = None
    way: str | None = None
    started_at: dt.datetime = Field(sa_type=Utc)
    finished_at: dt.datetime = Field(sa_type=Utc)


class ToolCall(Identified, table=True):
    """One tool call of a turn, with its arguments and its answer (cut at a bound). rogue: of a call that no tool
    answered, why, as `models.answers.RogueKind`."""

    turn_id: str = Field(foreign_key="turn.id", index=True)
    ordinal: int
    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    output: str
    success: bool
    has_data: bool
    seconds: float
    rogue: str | None = None


class Artifact(Identified, table=True):
    """A picture that a tool call gave its turn beside the JSON. Its bytes are a file of the data folder.

    kind: media type, such as image/png. digest: SHA-256 of the bytes, and the file's name. size in bytes.
    """

    run_id: str = Field(foreign_key="run.id", index=True)
    turn_id: str = Field(foreign_key="turn.id", index=True)
    call_id: str = Field(foreign_key="tool_call.id", index=True)
    kind: str
    digest: str
    size: int
    created_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)


class ScreenHit(Identified, table=True):
    """A symbol put forward by one lens. market_at: market time. lens_version: of a person's own lens, null of the
    desk's and of packages'."""

    __table_args__ = (
        UniqueConstraint("step_id", "symbol"),
        Index("ix_screen_hit_market_at", "market_at"),
        Index("ix_screen_hit_symbol", "symbol", "market_at", "id"),
        Index("ix_screen_hit_lens", "lens", "symbol", "market_at", "id"),
    )

    run_id: str = Field(foreign_key="run.id", index=True)
    step_id: str = Field(foreign_key="step.id")
    turn_id: str = Field(foreign_key="turn.id", index=True)
    lens: str
    lens_version: str | None = None
    symbol: str
    instrument: str
    confidence: str
    thesis: str
    market_at: dt.datetime = Field(sa_type=Utc)

    @property
    def title(self) -> str:
        return self.lens if self.lens_version is None else f"{self.lens}@{self.lens_version}"


def lens_title() -> ColumnElement[str]:
    """Return the name of a hit's lens, with the version of a person's own, as `NAME@VERSION`: another text is another
    lens to scores and hit rates."""
    versioned = col(ScreenHit.lens) + "@" + col(ScreenHit.lens_version)  # null where there is no version
    return func.coalesce(versioned, col(ScreenHit.lens))


class LensTrial(Identified, table=True):
    """A lens's rule tried over past sessions, once a version, market, span and universe. names: digest of the universe;
    result: as `tools.lenses.trials`."""

    __table_args__ = (UniqueConstraint("lens", "version", "market", "first", "last", "every", "names"),)

    lens: str
    version: str
    market: str
    first: dt.date
    last: dt.date
    every: int
    names: str
    result: dict[str, Any] = Field(sa_type=JSON)
    at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)


class Candidate(Identified, table=True):
    """A symbol under research in a run. origin: screen, manual (named by a person), position (held already) or
    elsewhere (held by other accounts alone, which are never traded here).

    confidence: of the lenses that put it forward, null when none did.
    """

    __table_args__ = (UniqueConstraint("run_id", "symbol"),)

    run_id: str = Field(foreign_key="run.id", index=True)
    symbol: str
    instrument: str
    confidence: str | None = None
    origin: str
    rank: int
    score: float


class CandidateHit(DeskTable, table=True):
    """The screen hits that a candidate is based on."""

    candidate_id: str = Field(foreign_key="candidate.id", primary_key=True)
    hit_id: str = Field(foreign_key="screen_hit.id", primary_key=True, index=True)


class Report(Identified, Dated, table=True):
    """One role's report on one candidate; verdict and confidence only when completed.

    answer: the whole structured answer, also of a report that counts for nothing because it rests on no data;
    answer_schema: name of the model that it fits, of `models.answers` or `models.analysis`. Both are null in reports
    before migration 0008. grounding: the figures of its texts with their sources, of `agents.grounding`; null without a
    completed answer, and before migration 0018. confidence is the model's own, or less as the grounding caps it.
    author: label of the model that wrote it. thesis: a `models.thesis.KeptThesis`; null as grounding is, and of older
    versions.
    """

    __table_args__ = (
        UniqueConstraint("run_id", "symbol", "role"),
        Index("ix_report_symbol", "symbol", "market_at", "created_at"),
    )

    run_id: str = Field(foreign_key="run.id", index=True)
    step_id: str = Field(foreign_key="step.id", index=True)
    candidate_id: str = Field(foreign_key="candidate.id", index=True)
    turn_id: str = Field(foreign_key="turn.id", index=True)
    symbol: str
    role: str
    status: str
    verdict: str | None = None
    confidence: str | None = None
    summary: str = ""
    key_risks: list[str] = Field(default_factory=list, sa_type=JSON)
    answer: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True)))
    answer_schema: str | None = None
    grounding: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True)))
    thesis: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True)))
    reason: str | None = None
    author: str
    market_at: dt.datetime = Field(sa_type=Utc)


class ReportBasis(DeskTable, table=True):
    """What a report was made from, so that it may count again (DESK_REUSE): digest of its role (instructions, tools,
    schema, model), parts of its question, and its calls with their whole answers as packed JSON. tokens: of its turn.
    """

    report_id: str = Field(foreign_key="report.id", primary_key=True)
    digest: str
    question: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    calls: bytes = Field(sa_type=LargeBinary)
    tokens: int = 0


class ShardBasis(Identified, table=True):
    """As ReportBasis, of a screener's turn on one shard, whose hits may count again. market_at: market time."""

    __table_args__ = (Index("ix_shard_basis_digest", "account", "market", "digest", "market_at"),)

    turn_id: str = Field(foreign_key="turn.id", index=True)
    account: str
    market: str
    market_at: dt.datetime = Field(sa_type=Utc)
    digest: str
    question: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    calls: bytes = Field(sa_type=LargeBinary)
    tokens: int = 0


class Verdict(Identified, Dated, table=True):
    """The reduced reports of one candidate. market_at: market time. pooled: a `models.thesis.Pooled`; null where
    stances decided, and of older versions."""

    __table_args__ = (
        UniqueConstraint("run_id", "symbol"),
        Index("ix_verdict_symbol", "symbol", "market_at", "created_at"),
    )

    run_id: str = Field(foreign_key="run.id", index=True)
    candidate_id: str = Field(foreign_key="candidate.id", index=True)
    symbol: str
    rating: str
    confidence: str
    summary: str
    key_risks: list[str] = Field(default_factory=list, sa_type=JSON)
    completed: list[str] = Field(default_factory=list, sa_type=JSON)
    missing: list[str] = Field(default_factory=list, sa_type=JSON)
    pooled: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True)))
    market_at: dt.datetime = Field(sa_type=Utc)


class VerdictReport(DeskTable, table=True):
    """The reports that a verdict is based on."""

    verdict_id: str = Field(foreign_key="verdict.id", primary_key=True)
    report_id: str = Field(foreign_key="report.id", primary_key=True, index=True)


class Decision(Identified, Dated, table=True):
    """The trader's recommended actions of a run. turn_id is null when a person decided. author: label of the model, or
    name of the person.

    processed_at: when its orders were drafted, and the decision put on record.
    """

    __table_args__ = (UniqueConstraint("run_id"), Index("ix_decision_account", "account", "created_at"))

    run_id: str = Field(foreign_key="run.id")
    step_id: str = Field(foreign_key="step.id", index=True)
    turn_id: str | None = Field(default=None, foreign_key="turn.id", index=True)
    account: str
    status: str
    actions: list[dict[str, Any]] = Field(default_factory=list, sa_type=JSON)
    reasoning: str = ""
    author: str
    processed_at: dt.datetime | None = Field(default=None, sa_type=Utc)

    def reason_of(self, ordinal: int) -> str | None:
        """Return the reason of the action that became the order of this ordinal; None where it has none."""
        return self.actions[ordinal].get("reasoning") if ordinal < len(self.actions) else None


class RunDocumentCopy(DeskTable, table=True):
    """The written report of one run. place: its folder, without a login. due_at: of the next try; a process that tries
    moves it ahead first, so that no other one does meanwhile. error: of the last try that failed."""

    run_id: str = Field(primary_key=True, foreign_key="run.id")
    state: str = Field(index=True)
    place: str
    tries: int = 0
    due_at: dt.datetime = Field(sa_type=Utc)
    error: str | None = None
    written_at: dt.datetime | None = Field(default=None, sa_type=Utc)


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


class GraphCheckpoint(DeskTable, table=True):
    """A checkpoint of a graph, or the latest of a graph within one of its nodes.

    thread: name of the graph in its run. place: LangGraph's checkpoint namespace, empty for the graph itself.
    content: the checkpoint, as `form` says; metadata likewise. lists: of each channel whose value is a list, the
    runs of its parts' numbers: each one's first and length. step_id and attempt: those that wrote it.
    """

    run_id: str = Field(foreign_key="run.id", primary_key=True)
    thread: str = Field(primary_key=True)
    place: str = Field(primary_key=True)
    checkpoint_id: str = Field(primary_key=True)
    parent_id: str | None = None
    form: str
    content: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    about_form: str
    about: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    lists: dict[str, list[int]] = Field(default_factory=dict, sa_type=JSON)
    step_id: str = Field(foreign_key="step.id", index=True)
    attempt: int
    written_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)


class GraphPart(DeskTable, table=True):
    """One element of a list in a checkpoint, such as a message: stored once, however many checkpoints have it. digest:
    of its form and content. number: by which checkpoints name it."""

    run_id: str = Field(foreign_key="run.id", primary_key=True)
    thread: str = Field(primary_key=True)
    place: str = Field(primary_key=True)
    digest: str = Field(primary_key=True)
    number: int = 0
    form: str
    content: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class GraphWrite(DeskTable, table=True):
    """What a node has written since a checkpoint, while others of the same step still run: after a loss it is not run
    again. task: LangGraph's id of the node's task."""

    run_id: str = Field(foreign_key="run.id", primary_key=True)
    thread: str = Field(primary_key=True)
    place: str = Field(primary_key=True)
    task: str = Field(primary_key=True)
    ordinal: int = Field(primary_key=True)
    checkpoint_id: str
    path: str = ""
    channel: str
    form: str
    content: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class GraphMemory(Dated, table=True):
    """An item of the long-term memory of graphs, of no run. namespace: its labels, joined by full stops."""

    namespace: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    value: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    updated_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)


class BacktestSession(Identified, Dated, table=True):
    """One session of a backtest, marked at its close. Money is in account currency.

    backtest_id: the run that began the walk; run_id: the run that did this session, another one after a resumption.
    state: done; or missing, or blocked by a halt, with the reason. equity: null while a position has no price.
    exposure: gross value of the positions over equity. traded: value of the fills since the session before. orders by
    state, denials by code, verdicts by rating, unpriced and stale positions as symbols.
    """

    __table_args__ = (UniqueConstraint("backtest_id", "day"),)

    backtest_id: str = Field(foreign_key="run.id", index=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    day: dt.date
    state: str
    reason: str | None = None
    screen_run_id: str | None = Field(default=None, foreign_key="run.id", index=True)
    trade_run_id: str | None = Field(default=None, foreign_key="run.id", index=True)
    cash: float
    equity: float | None = None
    exposure: float | None = None
    traded: float
    orders: dict[str, int] = Field(default_factory=dict, sa_type=JSON)
    denials: dict[str, int] = Field(default_factory=dict, sa_type=JSON)
    verdicts: dict[str, int] = Field(default_factory=dict, sa_type=JSON)
    unpriced: list[str] = Field(default_factory=list, sa_type=JSON)
    stale: list[str] = Field(default_factory=list, sa_type=JSON)
