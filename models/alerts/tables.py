"""Tables of alerts: what a person wants to be told of, what each has seen, and each time that one fired."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import JSON, UniqueConstraint
from sqlmodel import Field

from chordesk.models.tables.columns import Dated, DeskTable, Identified, Utc, utcnow


class AlertsWatchlist(DeskTable, table=True):
    """A named list of symbols."""

    name: str = Field(primary_key=True)
    symbols: list[str] = Field(default_factory=list, sa_type=JSON)
    by: str
    changed_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)


class AlertsAlert(Dated, table=True):
    """An alert as a person wrote it.

    subject: what it is on, a symbol, watchlist:NAME, holdings, universe, account or desk. condition: as
    `tools/alerts/conditions.py` writes it. written_on: the day of the market when it was written, by which splits move
    the price that it names. rearm: outside, cooldown or once; hours: session or always. action: notify, or the kind of
    run that it starts with the fields `request`. most_per_day: runs that it starts in a UTC day.
    """

    name: str = Field(primary_key=True)
    subject: str
    condition: str
    written_on: dt.date
    for_minutes: int = 0
    hours: str = "session"
    rearm: str = "outside"
    cooldown_minutes: int = 60
    expires_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    action: str = "notify"
    request: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    most_per_day: int = 5
    enabled: bool = True
    by: str
    changed_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)


class AlertsState(DeskTable, table=True):
    """What an alert has seen of one symbol, or of the account or desk where that is empty.

    version: changes with each look, so that of two passes at once one counts. market, last_at: market and market time
    of the last look; looked_at: its real time. distance: the farthest from its threshold while armed, in parts of it.
    held_at: since when the condition holds. seen: ids of headlines and rows; null before the first look. fired: how
    often it has fired on the symbol, with those of an earlier alert of its name. unknown_since: the first session of
    which nothing was known since it was.
    """

    alert: str = Field(primary_key=True)
    symbol: str = Field(primary_key=True)
    version: int = 0
    market: str
    armed: bool = False
    distance: float = 0.0
    held_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    seen: list[str] | None = Field(default=None, sa_type=JSON)
    last_value: float | None = None
    last_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    reference: float | None = None
    fired: int = 0
    fired_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    unknown_since: dt.date | None = None
    unknown_why: str | None = None
    unknown_told: bool = False
    looked_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc, index=True)


class AlertsFiring(Identified, Dated, table=True):
    """One time that an alert fired. slot: the session and the ordinal of the firing, once for an alert and symbol;
    value, reference: what was seen, and against what. action, request: the run that it starts, empty for none; state:
    of that, starting, started, or ended without one, then `note` says why."""

    __table_args__ = (UniqueConstraint("alert", "symbol", "slot"),)

    alert: str
    symbol: str
    slot: str
    value: float | None = None
    reference: float | None = None
    why: str
    market_at: dt.datetime = Field(sa_type=Utc)
    action: str = "notify"
    request: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    state: str = Field(default="ended", index=True)
    run_id: str | None = None
    note: str | None = None


class AlertsPass(DeskTable, table=True):
    """The one row of the pass. owner, until: the process that has it; left_until: a market that was away is left alone
    until then."""

    name: str = Field(primary_key=True)
    owner: str | None = None
    until: dt.datetime | None = Field(default=None, sa_type=Utc)
    ended_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    left_until: dt.datetime | None = Field(default=None, sa_type=Utc)
    left_why: str | None = None
