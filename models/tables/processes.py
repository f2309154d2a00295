"""The tables of what a database says about itself, and of the processes that use it."""

import datetime as dt
from typing import Any

from sqlalchemy import JSON, CheckConstraint
from sqlmodel import Field

from chordesk.models.tables.columns import DeskTable, Utc, utcnow


class Identity(DeskTable, table=True):
    """The one row: the desk's id, which its Redis and data folders know too, and a hash of the migrations that made the
    tables."""

    __table_args__ = (CheckConstraint("id = 1", name="ck_identity_single"),)

    id: int = Field(default=1, primary_key=True)
    desk: str
    migrations: str
    made_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)


class Process(DeskTable, table=True):
    """A process of the desk, with the settings that it runs with, secrets only as "set". One that was not seen lately
    has ended."""

    name: str = Field(primary_key=True)
    started_at: dt.datetime = Field(sa_type=Utc)
    seen_at: dt.datetime = Field(sa_type=Utc)
    settings: dict[str, Any] = Field(sa_type=JSON)
