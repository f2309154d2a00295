"""The board of an episode: its questions, its signals, the forecasts of voices with their citations, and karma.

Lineage: order -> decision -> run -> forecast -> citation -> signal.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import JSON, Column, UniqueConstraint
from sqlmodel import Field

from chordesk.models.tables.columns import Dated, DeskTable, Identified, Utc


class EpisodeQuestion(DeskTable, table=True):
    """A question on a run's board. label: such as Q1; baseline: as it was then; chosen: why it was."""

    __table_args__ = (UniqueConstraint("run_id", "label"),)

    run_id: str = Field(foreign_key="run.id", primary_key=True)
    question_id: str = Field(foreign_key="question.id", primary_key=True)
    label: str
    baseline: float | None = None
    baseline_source: str = ""
    chosen: str = ""


class Signal(Identified, Dated, table=True):
    """One finding of a tool on a run's board, or the tombstone of a tool. Fields: of
    `models.board.signals.BoardSignal`; implied: the probability of YES that it implies for a question on its subjects,
    null where it implies none."""

    __table_args__ = (UniqueConstraint("run_id", "label"),)

    run_id: str = Field(foreign_key="run.id", index=True)
    step_id: str | None = Field(default=None, foreign_key="step.id", index=True)
    label: str
    tool: str
    owner: str
    state: str
    headline: str
    data: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    confidence: float | None = None
    basis: str = ""
    direction: str
    subjects: list[str] = Field(default_factory=list, sa_type=JSON)
    source: str
    as_of: dt.datetime = Field(sa_type=Utc)
    probability: float | None = None
    implied: float | None = None


class Forecast(Identified, Dated, table=True):
    """A voice's forecast of one question in one round. baseline: of the question then; chain: labels of signals;
    market_at: market time. author: label of the model."""

    __table_args__ = (UniqueConstraint("run_id", "voice", "round", "question_id"),)

    run_id: str = Field(foreign_key="run.id", index=True)
    step_id: str = Field(foreign_key="step.id", index=True)
    turn_id: str = Field(foreign_key="turn.id", index=True)
    question_id: str = Field(foreign_key="question.id", index=True)
    account: str
    voice: str = Field(index=True)
    round: int
    probability: float
    stake: float
    because: str
    chain: list[str] = Field(default_factory=list, sa_type=JSON)
    citations: list[dict[str, Any]] = Field(default_factory=list, sa_type=JSON)
    baseline: float
    author: str
    market_at: dt.datetime = Field(sa_type=Utc)


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
    """One booking of a voice's karma. ledger, reason: of `models.board.karma`; key: booked once, such as the run and
    reason, or the forecast. A voice's karma is the sum of its entries."""

    __table_args__ = (UniqueConstraint("account", "voice", "key"),)

    account: str
    voice: str
    ledger: str
    reason: str
    amount: float
    key: str
    run_id: str = Field(foreign_key="run.id", index=True)
    question_id: str | None = Field(default=None, foreign_key="question.id")
    market_at: dt.datetime = Field(sa_type=Utc)
    note: str = ""


class Episode(DeskTable, table=True):
    """The tally of a run's board: aggregates, citations, lint and content, as `agents.board` makes them.

    number: of the account's episodes, from 1. rounds: how many were held. used_round: of which round the aggregates
    are. content: markdown; summary: the same and more as JSON.
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
