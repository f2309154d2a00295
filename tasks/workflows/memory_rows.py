"""The rows of a prompt's memory: what earlier runs of an account on a market have stored, up to now.

The statements are built once: composing SQL costs more than running it, and each turn runs them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Executable, Select, bindparam, func, null, select, union_all
from sqlmodel import Session, col

from chordesk.models.research import ReportStatus
from chordesk.models.tables.composing import composed_once
from chordesk.models.tables.runs import Decision, Report, Run, ScreenHit, Verdict
from chordesk.tools.registry import ToolContext
from chordesk.tools.reports import seen_runs


class PastVerdict(NamedTuple):
    """A symbol's newest verdict. at: market time of its run."""

    at: dt.datetime
    rating: str
    confidence: str


class PastReport(NamedTuple):
    """A role's newest completed report. at: market time."""

    at: dt.datetime
    role: str
    verdict: str
    confidence: str
    summary: str
    key_risks: list[str]
    author: str


class PastHit(NamedTuple):
    """A lens's newest hit of a symbol. at: market time of its run."""

    at: dt.datetime
    symbol: str
    confidence: str
    thesis: str


class PastDecision(NamedTuple):
    """A decision of the trader. at: market time of its run."""

    at: dt.datetime
    actions: list[dict[str, Any]]
    reasoning: str


def past(session: Session, context: ToolContext, symbol: str) -> tuple[list[PastVerdict], list[PastReport]]:
    """Return the newest verdict on a symbol, if there is any, and the newest report of each role, in no order."""
    verdicts: list[PastVerdict] = []
    reports: list[PastReport] = []
    for row in _rows(session, context, _past(), symbol=symbol):
        if row.role is None:
            verdicts.append(PastVerdict(row.market_at, row.verdict, row.confidence))
        else:
            reports.append(PastReport(*row))
    return verdicts, reports


def hits(session: Session, context: ToolContext, lens: str, symbols: Sequence[str], most: int) -> list[PastHit]:
    """Return the newest hit of a lens on each symbol, the newest first."""
    found = _rows(session, context, _hits(), lens=lens, symbols=list(symbols), most=most)
    return [PastHit(*row) for row in found]


def decisions(session: Session, context: ToolContext, most: int) -> list[PastDecision]:
    """Return the newest decisions, the newest first."""
    return [PastDecision(*row) for row in _rows(session, context, _decisions(), most=most)]


def _rows(session: Session, context: ToolContext, statement: Executable, **asked: Any) -> Iterable[Any]:
    asked |= {"account": context.account, "market": context.market.name, "now": context.clock.now()}
    return session.connection().execute(statement, {**asked, "own": context.run_id or ""})


@composed_once
def _seen() -> tuple[Any, ...]:
    """Return the conditions of runs that a prompt may repeat. A run's own are left out: they would depend on which of
    its steps was faster."""
    runs = seen_runs(bindparam("account"), bindparam("market"), bindparam("now"))
    return *runs, col(Run.id) != bindparam("own")


@composed_once
def _past() -> Executable:
    """Return the statement of the newest reports and, with a role of null, the newest verdict: each turn runs it, and
    a statement more costs more than its rows."""
    return union_all(_reports(), _verdict())


def _verdict() -> Select[Any]:
    names = (col(Verdict.rating), col(Verdict.confidence), col(Verdict.summary), col(Verdict.key_risks))
    newest = (
        select(col(Run.market_now), null().label("role"), *names, null().label("author"))
        .join(Verdict, col(Verdict.run_id) == col(Run.id))
        .where(*_seen(), col(Verdict.symbol) == bindparam("symbol"))
        .order_by(col(Run.market_now).desc(), col(Verdict.created_at).desc())
        .limit(1)
        .subquery()
    )
    return select(*newest.c)


def _reports() -> Select[Any]:
    names = ("market_at", "role", "verdict", "confidence", "summary", "key_risks", "author")
    newest = (col(Report.market_at).desc(), col(Report.created_at).desc())
    place = func.row_number().over(partition_by=col(Report.role), order_by=newest).label("place")
    known = (
        select(*(getattr(Report, name) for name in names), place)
        .join(Run, col(Run.id) == col(Report.run_id))
        .where(*_seen(), col(Report.symbol) == bindparam("symbol"), col(Report.status) == ReportStatus.COMPLETED)
        .where(col(Report.market_at) <= bindparam("now"))
        .subquery()
    )
    return select(*(known.c[name] for name in names)).where(known.c.place == 1)


@composed_once
def _hits() -> Executable:
    names = ("symbol", "confidence", "thesis")
    newest = (col(Run.market_now).desc(), col(ScreenHit.id).desc())
    place = func.row_number().over(partition_by=col(ScreenHit.symbol), order_by=newest).label("place")
    known = (
        select(col(Run.market_now), col(ScreenHit.id), *(getattr(ScreenHit, name) for name in names), place)
        .join(ScreenHit, col(ScreenHit.run_id) == col(Run.id))
        .where(*_seen(), col(ScreenHit.lens) == bindparam("lens"))
        .where(col(ScreenHit.symbol).in_(bindparam("symbols", expanding=True)))
        .subquery()
    )
    return (
        select(known.c.market_now, *(known.c[name] for name in names))
        .where(known.c.place == 1)
        .order_by(known.c.market_now.desc(), known.c.id.desc())
        .limit(bindparam("most"))
    )


@composed_once
def _decisions() -> Executable:
    return (
        select(col(Run.market_now), col(Decision.actions), col(Decision.reasoning))
        .join(Decision, col(Decision.run_id) == col(Run.id))
        .where(*_seen(), col(Decision.account) == bindparam("account"), col(Decision.status) == "completed")
        .order_by(col(Run.market_now).desc(), col(Decision.created_at).desc())
        .limit(bindparam("most"))
    )
