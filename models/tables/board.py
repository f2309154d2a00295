"""The board of an episode with its forecasts and karma; questions, their pairs, and the play money staked on them."""

import datetime as dt
from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import JSON, CheckConstraint, Column, Index, String, UniqueConstraint
from sqlmodel import Field, SQLModel

from chordesk.models.tables.columns import Dated, DeskTable, Identified, Utc


class EpisodeQuestion(DeskTable, table=True):
    """A question on a run's board. label: such as Q1; baseline: as it was then; chosen: why it was; blind, informed:
    what its voices made of it together in round 1 and in round 2."""

    __table_args__ = (UniqueConstraint("run_id", "label"),)

    run_id: str = Field(foreign_key="run.id", primary_key=True)
    question_id: str = Field(foreign_key="question.id", primary_key=True, index=True)
    label: str
    baseline: float | None = None
    baseline_source: str = ""
    chosen: str = ""
    blind: float | None = None
    informed: float | None = None


SignalDirection = Literal["bullish", "bearish", "long", "short", "neutral", "arb", "contrarian"]


class SignalFinding(SQLModel):
    """One finding of a tool of the board."""

    headline: str  # made by code from `data`
    data: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    confidence: float | None = Field(default=None, ge=0, le=1)  # null where the tool has none
    basis: str = ""  # of the confidence
    direction: SignalDirection = Field(default="neutral", sa_type=String)
    subjects: Sequence[str] = Field(default=(), sa_type=JSON)  # symbols, or labels of questions; empty for all
    source: str
    as_of: dt.datetime = Field(sa_type=Utc)  # market time of the newest datum
    # Of YES for a question on its subjects, where the tool gives one itself.
    probability: float | None = Field(default=None, ge=0, le=1)
    precision: float = Field(default=1.0, ge=0)  # by which its shift counts, learned from the tool's resolved questions
    resolved: int = 0  # so many of them; too few leave 1, what the tool states


class Signal(Identified, Dated, SignalFinding, table=True):
    """One finding of a tool on a run's board, or the tombstone of a tool. label: such as momentum-1; owner: the voice
    whose tool it is, or `desk`; state: a `SignalState`."""

    __table_args__ = (UniqueConstraint("run_id", "label"),)

    run_id: str = Field(foreign_key="run.id", index=True)
    step_id: str | None = Field(default=None, foreign_key="step.id", index=True)
    label: str
    tool: str
    owner: str
    state: str


class Forecast(Identified, Dated, table=True):
    """A voice's forecast of one question in one round. stated: the probability as the voice gave it; probability: made
    coherent with its others; baseline: of the question then; change: what would prove it wrong; chain: labels of
    signals; market_at: market time. author: label of the model. booked: the question has ended, and what it earned its
    voice is booked."""

    __table_args__ = (
        UniqueConstraint("run_id", "voice", "round", "question_id"),
        Index("ix_forecast_account", "account", "market_at"),
        Index("ix_forecast_booked", "account", "booked"),
        Index("ix_forecast_question_id", "question_id", "account", "voice"),
        Index("ix_forecast_voice", "account", "voice", "market_at"),
    )

    run_id: str = Field(foreign_key="run.id", index=True)
    step_id: str = Field(foreign_key="step.id", index=True)
    turn_id: str = Field(foreign_key="turn.id", index=True)
    question_id: str = Field(foreign_key="question.id")
    account: str
    voice: str
    round: int
    probability: float
    stated: float
    stake: float
    because: str
    change: str | None = None
    chain: list[str] = Field(default_factory=list, sa_type=JSON)
    citations: list[dict[str, Any]] = Field(default_factory=list, sa_type=JSON)
    baseline: float
    author: str
    market_at: dt.datetime = Field(sa_type=Utc)
    booked: bool = False


class SignalCitation(Identified, Dated, table=True):
    """One citation of a forecast with code's decision on it. label: as the voice wrote it; signal_id: null where there
    is no such signal; reason: why it does not count, or a note; copied: the copy score, 0 to 1."""

    __table_args__ = (UniqueConstraint("forecast_id", "ordinal"),)

    run_id: str = Field(foreign_key="run.id", index=True)
    forecast_id: str = Field(foreign_key="forecast.id")
    signal_id: str | None = Field(default=None, foreign_key="signal.id", index=True)
    ordinal: int
    label: str
    stance: str
    claim: str
    counts: bool
    reason: str | None = None
    copied: float | None = None


class KarmaEntry(Identified, Dated, table=True):
    """What a voice earned with its forecasts of a resolved question: SKILL_OF_ALPHA times their gain over the baseline.
    A voice's karma is the sum of its entries. market_at: market time."""

    __table_args__ = (UniqueConstraint("account", "voice", "question_id"),)

    account: str
    run_id: str = Field(foreign_key="run.id", index=True)
    voice: str
    question_id: str = Field(foreign_key="question.id")
    amount: float
    note: str = ""
    market_at: dt.datetime = Field(sa_type=Utc)


class Episode(DeskTable, table=True):
    """The tally of a run's board: aggregates, citations, lint and content, as the board's code makes them.

    number: of the account's episodes, from 1. rounds: how many were held. used_round: the aggregates' round. content:
    markdown; summary: the same and more as JSON.
    """

    __table_args__ = (UniqueConstraint("account", "number"),)

    run_id: str = Field(foreign_key="run.id", primary_key=True)
    account: str
    number: int
    rounds: int
    used_round: int | None = None
    content: str
    summary: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    created_at: dt.datetime = Field(sa_type=Utc)


class Calibration(Identified, Dated, table=True):
    """The probability that verdicts of a rating and confidence turned out to have. The newest of each pair is in
    force."""

    rating: str
    confidence: str
    probability: float
    low: float
    high: float
    resolved: int
    dates: int
    detail: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True)))


class Question(Identified, Dated, table=True):
    """Anything that resolves. source, state and rule: of `models.questions`.

    external_id: distinguishes it within its source, such as the venue's id, or symbol, day and sessions. market: whose
    bars it is resolved from; empty for questions of venues and persons. baseline: probability of YES without the desk
    when it was opened or last refreshed, null where there is no price. outcome: 0 to 1, null while open and when void.
    evidence: the data that resolved it, with their source. note: why one whose deadline has passed is still open.
    event: of the venue, of whose questions at most one comes true; null where it says nothing of that kind.
    criteria: what decides it, in its venue's words; with the background it is shown to voices.
    """

    __table_args__ = (
        UniqueConstraint("source", "market", "external_id"),
        CheckConstraint("opens_at < closes_at", name="ck_question_opens_before_it_closes"),
        CheckConstraint("outcome is null or (outcome >= 0 and outcome <= 1)", name="ck_question_outcome"),
        CheckConstraint("baseline is null or (baseline >= 0 and baseline <= 1)", name="ck_question_baseline"),
        Index("ix_question_state_closes_at", "state", "closes_at"),
        Index("ix_question_resolved_at", "resolved_at"),
    )

    source: str
    market: str = ""
    external_id: str
    text: str
    rule: dict[str, Any] = Field(sa_type=JSON)
    subjects: list[str] = Field(default_factory=list, sa_type=JSON)
    opens_at: dt.datetime = Field(sa_type=Utc)
    closes_at: dt.datetime = Field(sa_type=Utc)
    baseline: float | None = None
    baseline_source: str = ""
    url: str | None = None
    event: str | None = None
    criteria: str = ""
    background: str = ""
    state: str
    outcome: float | None = None
    evidence: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True)))
    resolved_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    resolved_by: str | None = None
    note: str | None = None
    author: str = ""


class ScoreMark(DeskTable, table=True):
    """An account's scores as they were, and what tells whether they still are. since: real time from which on it has
    the runs that they may rest on."""

    account: str = Field(primary_key=True)
    since: dt.datetime = Field(sa_type=Utc)
    rests_on: dict[str, Any] = Field(sa_type=JSON)
    board: dict[str, Any] = Field(sa_type=JSON)


class VerdictQuestion(DeskTable, table=True):
    """The question by which a verdict is scored."""

    verdict_id: str = Field(foreign_key="verdict.id", primary_key=True)
    question_id: str = Field(foreign_key="question.id", index=True)


class ThesisQuestion(DeskTable, table=True):
    """The question by which a report's thesis is scored. watched: whether the sessions until its close were looked at
    for the thesis' invalidation; crossed_on: the first one that reached it."""

    report_id: str = Field(foreign_key="report.id", primary_key=True)
    question_id: str = Field(foreign_key="question.id", index=True)
    watched: bool = Field(default=False, index=True)
    crossed_on: dt.date | None = None


class QuestionPair(Identified, Dated, table=True):
    """Two questions of different venues that may be the same. state: suggested, confirmed or rejected, the last two by
    a person. inverse: YES of one is NO of the other. first_id is the smaller id. score: likeness of the titles, 0 to
    100."""

    __table_args__ = (
        UniqueConstraint("first_id", "second_id"),
        CheckConstraint("first_id < second_id", name="ck_question_pair_order"),
    )

    first_id: str = Field(foreign_key="question.id")
    second_id: str = Field(foreign_key="question.id")
    state: str
    inverse: bool = False
    score: float
    decided_by: str | None = None
    decided_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    why: str | None = None


class EventPosition(Identified, Dated, table=True):
    """Play money on one question. side: yes or no; price: paid a share, fees included in `cost`; payout: null while it
    is open."""

    __table_args__ = (
        UniqueConstraint("run_id", "question_id"),
        Index("ix_event_position_account", "account", "payout"),
    )

    account: str
    run_id: str = Field(foreign_key="run.id")
    question_id: str = Field(foreign_key="question.id", index=True)
    side: str
    probability: float
    shares: float
    price: float
    fee: float
    cost: float
    opened_at: dt.datetime = Field(sa_type=Utc)
    payout: float | None = None
    closed_at: dt.datetime | None = Field(default=None, sa_type=Utc)
