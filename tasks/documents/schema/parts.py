"""Parts that documents share: their head, totals, what is missing, and the way from a hit to a fill."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import Field

from chordesk.models.answers import Frozen
from chordesk.tasks.engine.budgets import Cost
from chordesk.tasks.views.history.candles import Candle, Gap

FORMAT: Literal["chordesk.report"] = "chordesk.report"
VERSION: Literal[1] = 1

MarkKind = Literal["hit", "verdict", "order", "fill"]
LinkKind = Literal[
    "hit", "candidate", "report", "verdict", "analysis", "forecast", "decision", "preview", "order", "approval",
    "fill", "protection",
]  # fmt: skip


class MissingItem(Gap):
    """Something that a reader may look for in vain. what: of what kind, such as a report; reason: why it is not there;
    symbol, role: of which, null for the whole."""

    symbol: str | None = None
    role: str | None = None


class DocumentHead(Frozen):
    """The beginning of each document. format, version: of this schema. made_at: real time. in_flight: what it is about
    goes on, so that a later one may have more. page: address of the same on the desk's page, service: that of the page
    itself; null where the desk had none."""

    format: Literal["chordesk.report"] = FORMAT
    version: Literal[1] = VERSION
    title: str
    made_at: dt.datetime
    in_flight: bool
    page: str | None
    service: str | None
    missing: list[MissingItem]


class RoleTotal(Frozen):
    """The turns of a role. outcomes: turns by outcome; tokens: null where the provider counted none; seconds of real
    time, summed over turns that ran beside each other."""

    role: str
    turns: int
    outcomes: dict[str, int]
    tokens: int | None
    seconds: float


class Totals(Frozen):
    """What it took. tokens: as far as providers counted them; cost: estimated, see `usd` and what it leaves out;
    seconds: from the opening of a run to its end, or until now, and summed over several runs."""

    runs: int
    turns: int
    tokens: int
    cost: Cost
    seconds: float
    roles: list[RoleTotal]


class LineageStep(Frozen):
    """One step of the way from a screen hit to a fill. id: of the row, null where it has none of its own; label: text
    of whatever origin; at: real time at which it came about, null where that is not kept. turn_id: of the desk's record
    of the turn; codex_turn_id, thread_id: the runtime's own. page: its address on the desk's page."""

    kind: LinkKind
    id: str | None
    label: str
    at: dt.datetime | None
    turn_id: str | None = None
    codex_turn_id: str | None = None
    thread_id: str | None = None
    thread_reason: str | None = None
    page: str | None = None


class ChartMark(Frozen):
    """Something that happened at a time of the market. price: of an order or a fill, null where it has none."""

    kind: MarkKind
    at: dt.datetime
    label: str
    price: float | None
    run_id: str


class PriceChart(Frozen):
    """A symbol's sessions and what happened in them. as_of: the market's time, after which there is nothing; null
    without a market. bars: of the chart alone; `GET /symbols/SYMBOL/bars` has them as JSON."""

    symbol: str
    market: str
    as_of: dt.datetime | None
    sessions: int
    first: str | None
    last: str | None
    last_close: float | None
    adjusted: bool | None
    marks: list[ChartMark]
    missing: list[Gap]
    bars: list[Candle] = Field(default=[], exclude=True)
