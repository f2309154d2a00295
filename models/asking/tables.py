"""The table of questions and answers."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import JSON
from sqlmodel import Field

from chordesk.models.tables.columns import Dated, Identified, Utc


class AskingEntry(Identified, Dated, table=True):
    """A question and its answer. Those of one dialogue follow each other by id.

    dialogue: the id of its first entry. person, origin: who asked and where, such as terminal or page. intent: of an
    answer from rows; empty where a model was asked, by the run run_id. state: asked, answered, failed or stopped.
    sources: {kind, id, way} of rows that it rests on. grounding: a `models.answers` Grounding of the text, None where
    it has no figures or rows alone. reason: why there is no answer.
    """

    dialogue: str = Field(index=True)
    person: str
    origin: str
    account: str
    question: str
    intent: str = ""
    run_id: str | None = Field(default=None, foreign_key="run.id", index=True)
    state: str
    text: str = ""
    sources: list[dict[str, Any]] = Field(default_factory=list, sa_type=JSON)
    missing: list[str] = Field(default_factory=list, sa_type=JSON)
    grounding: dict[str, Any] | None = Field(default=None, sa_type=JSON)
    reason: str | None = None
    ended_at: dt.datetime | None = Field(default=None, sa_type=Utc)
