"""The three documents: of a run, of a day of the desk, and of a symbol across runs."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from chordesk.models.answers import Frozen
from chordesk.tasks.approvals import WaitingOrder, WaitingRequest
from chordesk.tasks.documents.schema.dossier import Dossier, OrderLine
from chordesk.tasks.documents.schema.parts import DocumentHead, PriceChart, Totals
from chordesk.tasks.views.board.board_view import BoardView
from chordesk.tasks.views.history.listing import RunRow
from chordesk.tasks.views.history.symbol import SymbolDetail
from chordesk.tasks.views.run_detail import RunDetail
from chordesk.tasks.views.trading.account import AccountState
from chordesk.tasks.views.trading.equity import EquityCurve, EquityDay
from chordesk.tasks.views.trading.ledger_view import LedgerRow


class Stage(Frozen):
    """A stage of the funnel: how many rows, of how many symbols, and rows by label."""

    stage: str
    count: int
    symbols: int
    labels: dict[str, int]


class RunDocument(DocumentHead):
    """The report of a run. run: as `GET /runs/RUN` has it; symbols: its candidates by rank, for a trade run those of
    its source. board: of a run with rounds of voices; equity: of its account's marks up to the run's day, null where
    there are fewer than two, and for a backtest, which has its own curve in `run.backtest`.

    unresearched: orders on symbols without research in it.
    """

    kind: Literal["run"] = "run"
    run: RunDetail
    totals: Totals
    funnel: list[Stage]
    symbols: list[Dossier]
    unresearched: list[OrderLine]
    board: BoardView | None
    equity: EquityCurve | None


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
    first. orders, movements: of the account, by market time. account, waiting: as they are when the document is made;
    equity: of the day, null without a mark on it. halts: all changes of the trading state on the day."""

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
