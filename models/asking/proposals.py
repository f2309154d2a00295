"""The table of proposals: acts that wait for a person to confirm them, and what became of each."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import JSON
from sqlmodel import Field

from chordesk.models.tables.columns import Dated, Identified, Utc


class AskingProposal(Identified, Dated, table=True):
    """An act that was proposed. by, origin: who asked, and from where. shown: the hash of what the card says; bound:
    what must be the same when it is confirmed, by its name for people. state: open, confirmed (its act is not done
    yet), done, failed, changed, dismissed, replaced, expired. decided_by: who confirmed or dismissed it, with the
    road. entry: the question whose answer it is of; None of a person's own words."""

    kind: str
    arguments: dict[str, Any] = Field(sa_type=JSON)
    title: str
    lines: list[str] = Field(sa_type=JSON)
    cost: str
    account: str
    bound: dict[str, str] = Field(sa_type=JSON)
    shown: str
    outside: bool = False
    by: str
    origin: str
    expires_at: dt.datetime = Field(sa_type=Utc)
    state: str = Field(index=True)
    decided_by: str | None = None
    decided_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    outcome: str = ""
    run_id: str | None = None
    entry: str | None = Field(default=None, index=True)
