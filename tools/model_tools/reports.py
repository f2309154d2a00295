"""The tool report_latest: the newest verdicts and reports of the desk itself, up to the market clock's now."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from sqlmodel import Session, col, select
from typing_extensions import TypedDict

from chordesk.models.answers import ReportStatus
from chordesk.models.errors import NotConfigured
from chordesk.models.tables.board import Question, VerdictQuestion
from chordesk.models.tables.runs import Report, Run, Verdict
from chordesk.tools.model_tools.portfolio import store_of
from chordesk.tools.registry import Answer, Arguments, Gaps, Symbols, ToolContext, ToolSpec, payload

Row = TypeVar("Row")
_SUMMARY_CHARS = 600
_RISKS = 5
# Newest rows read for each symbol: enough for every role of the last runs.
_ROWS_A_SYMBOL = 24


class ReportArguments(Arguments):
    symbols: Symbols


class VerdictRow(TypedDict):
    symbol: str
    rating: str
    confidence: str | None
    summary: str
    keyRisks: list[str]
    marketAt: dt.datetime
    runId: str


class ReportRow(TypedDict):
    symbol: str
    role: str
    verdict: str | None
    confidence: str | None
    summary: str
    keyRisks: list[str]
    author: str | None
    marketAt: dt.datetime
    runId: str


class ReportsAnswer(Answer):
    verdicts: list[VerdictRow]
    reports: list[ReportRow]


def report_latest(context: ToolContext, arguments: ReportArguments) -> dict[str, Any]:
    """Return the newest verdict and each role's newest completed report, of this account and market. Rows of a run
    whose market time is after now are left out: in replay the database may hold later days. A run without memory gets
    none."""
    gaps = Gaps()
    if context.settings.memory == "off":
        gaps.add("report", "this run goes without the memory of earlier ones (DESK_MEMORY=off)")
        return payload(context, gaps, available=False, verdicts=[], reports=[])
    with store_of(context).read() as session:
        verdicts = _verdicts(session, context, arguments.symbols)
        reports = _reports(session, context, arguments.symbols)
    known = {row["symbol"] for row in (*verdicts, *reports)}
    for symbol in arguments.symbols:
        if symbol not in known:
            gaps.add("report", "the desk has none up to now", symbol)
    return payload(context, gaps, available=bool(known), verdicts=verdicts, reports=reports)


def _verdicts(session: Session, context: ToolContext, symbols: list[str]) -> list[dict[str, Any]]:
    found = session.exec(
        select(Verdict, Run)
        .join(Run, col(Run.id) == col(Verdict.run_id))
        .where(*seen_runs(context.account, context.market.name, context.clock.now()), col(Verdict.symbol).in_(symbols))
        .order_by(col(Run.market_now).desc(), col(Verdict.created_at).desc())
        .limit(_ROWS_A_SYMBOL * len(symbols))
    )
    return [_verdict(verdict, run) for verdict, run in _first(found, lambda pair: pair[0].symbol)]


def _reports(session: Session, context: ToolContext, symbols: list[str]) -> list[dict[str, Any]]:
    found = session.exec(
        select(Report)
        .join(Run, col(Run.id) == col(Report.run_id))
        .where(*seen_runs(context.account, context.market.name, context.clock.now()), col(Report.symbol).in_(symbols))
        .where(Report.status == ReportStatus.COMPLETED, col(Report.market_at) <= context.clock.now())
        .order_by(col(Report.market_at).desc(), col(Report.created_at).desc())
        .limit(_ROWS_A_SYMBOL * len(symbols))
    )
    return [_report(row) for row in _first(found, lambda row: (row.symbol, row.role))]


def seen_runs(account: Any, market: Any, now: Any) -> tuple[Any, ...]:
    """Conditions on Run: of an account and a market, and not later than now."""
    return Run.account == account, Run.market == market, col(Run.market_now) <= now


def _first(rows: Iterable[Row], key: Callable[[Row], Any]) -> list[Row]:
    kept: dict[Any, Row] = {}
    for row in rows:
        kept.setdefault(key(row), row)
    return [kept[one] for one in sorted(kept)]


def _verdict(row: Verdict, run: Run) -> dict[str, Any]:
    return {
        "symbol": row.symbol,
        "rating": row.rating,
        "confidence": row.confidence,
        "summary": row.summary[:_SUMMARY_CHARS],
        "keyRisks": row.key_risks[:_RISKS],
        "marketAt": run.market_now.isoformat(),
        "runId": run.id,
    }


def _report(row: Report) -> dict[str, Any]:
    return {
        "symbol": row.symbol,
        "role": row.role,
        "verdict": row.verdict,
        "confidence": row.confidence,
        "summary": row.summary[:_SUMMARY_CHARS],
        "keyRisks": row.key_risks[:_RISKS],
        "author": row.author,
        "marketAt": row.market_at.isoformat(),
        "runId": row.run_id,
    }


def earlier_verdicts(context: ToolContext, symbol: str, most: int) -> list[dict[str, Any]]:
    """Return the desk's newest verdicts on a symbol before this run, and what came of each by now. Raises NotConfigured
    in a run without memory."""
    if context.settings.memory == "off":
        raise NotConfigured("this run goes without the memory of earlier ones (DESK_MEMORY=off)")
    now = context.clock.now()
    with store_of(context).read() as session:
        found = session.exec(
            select(Verdict, Run, Question)
            .join(Run, col(Run.id) == col(Verdict.run_id))
            .join(VerdictQuestion, col(VerdictQuestion.verdict_id) == col(Verdict.id), isouter=True)
            .join(Question, col(Question.id) == col(VerdictQuestion.question_id), isouter=True)
            .where(*seen_runs(context.account, context.market.name, now), Verdict.symbol == symbol)
            .where(col(Run.id) != (context.run_id or ""))
            .order_by(col(Run.market_now).desc(), col(Verdict.created_at).desc())
            .limit(most)
        ).all()
    return [{**_verdict(verdict, run), "outcome": _outcome(question, now)} for verdict, run, question in found]


def _outcome(question: Question | None, now: dt.datetime) -> str:
    if question is None:
        return "not scored"
    if question.outcome is None or question.closes_at > now:
        return f"open until {question.closes_at.date()}"
    return "beat the median" if question.outcome > 0.5 else "did not beat the median"


REPORT_LATEST = ToolSpec(
    name="report_latest",
    description=(
        "This desk's last answers on up to 150 symbols: the newest verdict, and each role's newest report with summary "
        "and key risks."
    ),
    arguments=ReportArguments,
    function=report_latest,
    answer=ReportsAnswer,
    data=False,
)
