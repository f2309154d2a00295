"""What an answer is, and what the answers share. Every figure of a text stands in `facts` too, as the row has it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy
from sqlmodel import col

from chordesk.models.answers import Frozen
from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError, UsageError
from chordesk.models.exchanges import at_exchange, zone_of
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run
from chordesk.models.text import SHORT_ID
from chordesk.tasks.asking.moments import EVER, bounds, is_clock
from chordesk.tasks.asking.questions import Question
from chordesk.tasks.reading.accounts import AccountDetail, account_detail, held_symbols
from chordesk.tasks.reading.changes import last_close, since_of
from chordesk.tools.ledger import account_money
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders.snapshots import Snapshot, take_snapshot

MOST = 12  # rows that a text lists


class Source(Frozen):
    """A row that an answer rests on. way: of the page."""

    kind: str
    id: str
    way: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id[:SHORT_ID]}"


class Answer(Frozen):
    """The answer to a question. intent: empty where the question was not understood; facts: the rows' figures;
    missing: what the rows do not have, and why. tokens: that it cost."""

    question: str
    intent: str
    text: str
    facts: dict[str, Any] = {}
    sources: list[Source] = []
    missing: list[str] = []
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Desk:
    """What answers are read from. market: the account's, asked only by questions that need prices. clock: the market
    time of a model, which is told of no later rows, and of no run with a mask; None for a person, who may see all."""

    settings: Settings
    store: Store
    account: str
    market: Callable[[], MarketData]
    clock: dt.datetime | None = None

    @property
    def now(self) -> dt.datetime:
        return utcnow()

    def told(self, table: Any) -> list[Any]:
        """Return the conditions on a table's rows of what may be told: none for a person."""
        if self.clock is None:
            return []
        runs = [col(Run.account) == self.account, col(Run.market_now) <= self.clock]
        runs.append(col(Run.settings)[("mask", 0)].as_string().is_(None))
        if table is Run:
            return runs
        at = next((name for name in ("market_at", "filled_at") if hasattr(table, name)), None)
        found = [col(getattr(table, at)) <= self.clock] if at is not None else []
        if hasattr(table, "run_id"):
            found.append(col(table.run_id).in_(sqlalchemy.select(col(Run.id)).where(*runs)))
        return found

    def since(self, question: Question) -> dt.datetime | None:
        """Return the moment from which on a question asks, None where it names none."""
        return self._moment(question.since, end=False) if question.since is not None else None

    def until(self, question: Question) -> dt.datetime | None:
        """Return the moment before which a question asks, None where it names none."""
        if question.until is None:
            return None
        token, end = question.until.removesuffix("<"), question.until.endswith("<")
        if not is_clock(token):
            return self._moment(token, end=end)
        since = self.since(question) if question.since is not None and is_clock(question.since) else None
        today = self.now.astimezone(zone_of(self.settings.exchange)).replace(hour=0, minute=0, second=0, microsecond=0)
        return self._moment(token, end=end, begun=since or today)

    def _moment(self, token: str, *, end: bool, begun: dt.datetime | None = None) -> dt.datetime:
        found = bounds(
            token, self.now, zone_of(self.settings.exchange), lambda: last_close(self.settings, self.now), begun
        ) or bounds_of_text(token, self.settings, self.now)
        at = found[1] if end else found[0]
        if at > self.now and not end and begun is None:
            raise UsageError(f"{token!r} is still to come", remedy="name a moment that has passed")
        return at.astimezone(dt.UTC)

    def within(self, question: Question, column: Any) -> list[Any]:
        """Return the conditions that a row's time lies within the question's moments."""
        since, until = self.since(question), self.until(question)
        begun = [column >= since] if since is not None else []
        return begun + ([column < until] if until is not None else [])

    def span(self, question: Question) -> str:
        """Return the moments of a question as the end of a sentence, empty without one."""
        if question.since == EVER:
            return ""
        since, until = self.since(question), self.until(question)
        begun = f" since {self.time(since)}" if since is not None else ""
        return f"{begun} until {self.time(until)}" if until is not None else begun

    def time(self, at: dt.datetime) -> str:
        return at_exchange(at, self.settings.exchange)

    def detail(self, missing: list[str]) -> AccountDetail:
        """Return the account at the market's prices, without them where the market does not answer."""
        snapshot: Snapshot | None = None
        if self.account == self.settings.account:
            with self.store.read() as session:
                symbols = held_symbols(session, self.account)
                money = account_money(session, self.settings, self.account)
            try:
                snapshot = take_snapshot(self.market(), symbols, money)
            except DeskError as error:
                missing.append(f"prices: {error.args[0]}")
        else:
            missing.append(f"prices: this desk has the market of {self.settings.account} alone")
        with self.store.read() as session:
            found = account_detail(session, self.settings, self.account, snapshot)
        if snapshot is not None:
            missing += [f"price of {symbol}: {why}" for symbol, why in found.missing.items()]
        return found


Answering = Callable[[Desk, Question], Answer]


def bounds_of_text(token: str, settings: Settings, now: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
    """Return the moment of a text as both its ends. Raises UsageError for one that is none."""
    try:
        at = since_of(token, settings, now)
    except UsageError as error:
        raise UsageError(str(error.args[0]).removeprefix("--since "), remedy=error.remedy) from None
    return at, at


def run_source(run_id: str) -> Source:
    return Source(kind="run", id=run_id, way=f"/runs/{run_id}")


def order_source(order_id: str) -> Source:
    return Source(kind="order", id=order_id, way=f"/orders/{order_id}")


def listed(lines: list[str], more: int) -> str:
    """Return lines, with how many are left out."""
    return "\n".join([*lines, *([f"and {more} more"] if more > 0 else [])])


def amount(value: float | None, currency: str) -> str:
    return "not known" if value is None else f"{value:,.2f} {currency}"


def share(value: float | None) -> str:
    return "not known" if value is None else f"{100 * value:.1f} %"
