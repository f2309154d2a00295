"""The schema of reports: of a run, a day of the desk and a symbol, their dossiers and parts, and links to the desk's
page."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal
from urllib.parse import quote

from pydantic import Field

from chordesk.models.answers import Frozen
from chordesk.models.settings import Settings, running_desk
from chordesk.models.tables.columns import Row
from chordesk.models.tables.runs import Report
from chordesk.tasks.approval_requests import WaitingOrder, WaitingRequest
from chordesk.tasks.engine.budgets import Cost
from chordesk.tasks.reading import run_parts
from chordesk.tasks.reading.accounts import AccountState, EquityCurve, EquityDay, ExecutedRole, LedgerRow, SkippedRole
from chordesk.tasks.reading.chain import Node
from chordesk.tasks.reading.order_history import OrderParts
from chordesk.tasks.reading.report_view import AnalysisRow
from chordesk.tasks.reading.run_details import RunDetail, detail_type
from chordesk.tasks.reading.run_list import RunRow
from chordesk.tasks.reading.runs import ActionRow
from chordesk.tasks.reading.symbol_history import Candle, Gap, SymbolDetail

FORMAT: Literal["chordesk.report"] = "chordesk.report"
VERSION: Literal[1] = 1

Format = Literal["md", "html", "json"]
MEDIA_TYPES: dict[Format, str] = {
    "md": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "json": "application/json",
}

MarkKind = Literal["hit", "verdict", "order", "fill"]


class MissingItem(Gap):
    """Something absent from the report. what: its kind, such as a report; reason: why; symbol, role: null for the
    whole."""

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


class LineageStep(Node):
    """One step of the way from a screen hit to a fill. page: its address on the desk's page."""

    facts: dict[str, Any] = Field(default={}, exclude=True)
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


# A symbol's dossier: all that one run made of it. The symbols of a run are written one by one too, a file each.
#
# The names of its parts are those of research aggregators: artifacts are the reports of roles, memory is what the
# prompts of the run were given of the symbol's past.


class ToolUse(Frozen):
    """One tool call. has_data: its answer was more than a gap; rogue: why no tool of its turn answered it."""

    tool: str
    success: bool
    has_data: bool
    seconds: float
    rogue: str | None = None


class RoleArtifact(Frozen):
    """A role's report. claimed: the model's own confidence, where the report's is what counts; unsupported: figures of
    its texts without a source, the first of them.

    counts: the verdict rests on it; earlier: it is an earlier run's; reused: how that was found to count again.
    tokens, cost_usd: null where they are not known; pictures: digests of what its turn was shown.
    """

    report: Row[Report]
    claimed: str | None
    unsupported: list[str]
    counts: bool
    earlier: bool
    reused: str | None
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


class OrderLine(OrderParts):
    """An order with all that came of it. page: its address on the desk's page."""

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
    prior_artifacts: list[Row[Report]]
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


class Stage(Frozen):
    """A stage of the funnel: how many rows, of how many symbols, and rows by label."""

    stage: str
    count: int
    symbols: int
    labels: dict[str, int]


class RunDocument(DocumentHead):
    """The report of a run. run: as `GET /runs/RUN` has it; symbols: its candidates by rank, for a trade run those of
    its source. equity: of its account's marks up to the run's day, null where there are fewer than two, and for a
    backtest, which has its own curve in `run.backtest`.

    unresearched: orders on symbols without research in it. Features add parts of their own.
    """

    kind: Literal["run"] = "run"
    run: RunDetail
    totals: Totals
    funnel: list[Stage]
    symbols: list[Dossier]
    unresearched: list[OrderLine]
    equity: EquityCurve | None


@cache
def run_document_type() -> type[RunDocument]:
    return run_parts.widened(RunDocument, "report", run=detail_type())


class DayVerdict(Frozen):
    """A verdict of one of the day's runs."""

    run_id: str
    symbol: str
    rating: str
    confidence: str
    rule: str
    missing: list[str]
    page: str | None


class TradingChange(Frozen):
    """An account was halted, set to reducing or resumed. at: real time."""

    at: dt.datetime
    account: str
    state: str
    why: str | None
    by: str | None


class DayDocument(DocumentHead):
    """The desk's day in New York. runs: those that were opened on it, or for which the market was on it, the newest
    first, without those of backtests' sessions, whose turns are in the totals alone. orders, movements: of the account,
    by market time. account, waiting: as they are when the document is made; equity: of the day, null without a mark on
    it. halts: all changes of the trading state on the day."""

    kind: Literal["day"] = "day"
    day: dt.date
    runs: list[RunRow]
    verdicts: list[DayVerdict]
    orders: list[OrderLine]
    movements: list[LedgerRow]
    account: AccountState
    equity: EquityDay | None
    curve: EquityCurve
    halts: list[TradingChange]
    waiting: list[WaitingOrder | WaitingRequest]
    totals: Totals


class SymbolDocument(DocumentHead):
    """A symbol across all runs of the account. symbol: as `GET /symbols/SYMBOL` has it; runs: in which it was a
    candidate or had an order, the newest first."""

    kind: Literal["symbol"] = "symbol"
    symbol: SymbolDetail
    runs: list[RunRow]
    orders: list[OrderLine]
    prices: PriceChart
    totals: Totals


Document = RunDocument | DayDocument | SymbolDocument


_EVERYWHERE = {"//0.0.0.0:": "//127.0.0.1:", "//[::]:": "//[::1]:"}


@dataclass(frozen=True, slots=True)
class PageLinks:
    """The addresses of views. base: of the desk's service, None where the desk has none: then all of them are None."""

    base: str | None

    def run(self, run_id: str) -> str | None:
        return self._at("runs", run_id)

    def symbol(self, symbol: str) -> str | None:
        return self._at("symbols", symbol)

    def report(self, report_id: str) -> str | None:
        return self._at("reports", report_id)

    def verdict(self, verdict_id: str) -> str | None:
        return self._at("verdicts", verdict_id)

    def order(self, order_id: str) -> str | None:
        return self._at("orders", order_id)

    def turn(self, turn_id: str | None) -> str | None:
        return self._at("turns", turn_id) if turn_id is not None else None

    def home(self) -> str | None:
        return f"{self.base}/" if self.base is not None else None

    def _at(self, view: str, name: str) -> str | None:
        return f"{self.base}/#/{view}/{quote(name, safe='')}" if self.base is not None else None


def pages_of(settings: Settings) -> PageLinks:
    """Return the addresses of DESK_NOTIFY_PAGE_URL, else of the service that runs on this process's home; of none
    without one."""
    if settings.notify_page_url is not None:
        return PageLinks(settings.notify_page_url.rstrip("/"))
    found = running_desk.read_api(settings.home)
    if found is None or not found[1]:
        return PageLinks(None)
    base = found[0].rstrip("/")
    for everywhere, here in _EVERYWHERE.items():
        base = base.replace(everywhere, here)
    return PageLinks(base)
