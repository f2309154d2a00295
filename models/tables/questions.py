"""Questions with their outcomes, pairs of them across venues, and the play money staked on them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import JSON, CheckConstraint, Column, Index, UniqueConstraint
from sqlmodel import Field

from chordesk.models.tables.columns import Dated, DeskTable, Identified, Utc


class Question(Identified, Dated, table=True):
    """Anything that resolves. source, state and rule: of `models.board.questions`.

    external_id: distinguishes it within its source, such as the venue's id, or symbol, day and sessions. market: whose
    bars it is resolved from; empty for questions of venues and persons. baseline: probability of YES without the desk
    when it was opened or last refreshed, null where there is no price. outcome: 0 to 1, null while open and when void.
    evidence: the data that resolved it, with their source. note: why one whose deadline has passed is still open.
    """

    __table_args__ = (
        UniqueConstraint("source", "market", "external_id"),
        CheckConstraint("opens_at < closes_at", name="ck_question_opens_before_it_closes"),
        CheckConstraint("outcome is null or (outcome >= 0 and outcome <= 1)", name="ck_question_outcome"),
        CheckConstraint("baseline is null or (baseline >= 0 and baseline <= 1)", name="ck_question_baseline"),
        Index("ix_question_state_closes_at", "state", "closes_at"),
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
    state: str
    outcome: float | None = None
    evidence: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True)))
    resolved_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    resolved_by: str | None = None
    note: str | None = None
    author: str = ""


class VerdictQuestion(DeskTable, table=True):
    """The question by which a verdict is scored."""

    verdict_id: str = Field(foreign_key="verdict.id", primary_key=True)
    question_id: str = Field(foreign_key="question.id", index=True)


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

    __table_args__ = (UniqueConstraint("run_id", "question_id"),)

    account: str = Field(index=True)
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
