"""report_latest: what the desk itself said last of a symbol, as far as the market clock has come."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from sqlmodel import Session, col, select

from models.research import ReportStatus
from models.tables import Report, Run, Verdict
from tools.portfolio import store_of
from tools.registry import Arguments, Gaps, Symbols, ToolContext, ToolSpec, payload

Row = TypeVar("Row")
_SUMMARY_CHARS = 600
_RISKS = 5
# Newest rows read per symbol asked for: enough for every role of the last runs.
_ROWS_A_SYMBOL = 24


class ReportArguments(Arguments):
    symbols: Symbols


def report_latest(context: ToolContext, arguments: ReportArguments) -> dict[str, Any]:
    """The newest verdict and each role's newest completed report, of this account and market.

    Rows of a run whose market time is after now are not seen: in replay the database may know the future.
    """
    gaps = Gaps()
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
        .where(*_seen(context), col(Verdict.symbol).in_(symbols))
        .order_by(col(Run.market_now).desc(), col(Verdict.created_at).desc())
        .limit(_ROWS_A_SYMBOL * len(symbols))
    )
    newest = _first(found, lambda pair: pair[0].symbol)
    return [_verdict(verdict, run) for verdict, run in sorted(newest, key=lambda pair: pair[0].symbol)]


def _reports(session: Session, context: ToolContext, symbols: list[str]) -> list[dict[str, Any]]:
    found = session.exec(
        select(Report)
        .join(Run, col(Run.id) == col(Report.run_id))
        .where(*_seen(context), col(Report.symbol).in_(symbols))
        .where(Report.status == ReportStatus.COMPLETED, col(Report.market_at) <= context.clock.now())
        .order_by(col(Report.market_at).desc(), col(Report.created_at).desc())
        .limit(_ROWS_A_SYMBOL * len(symbols))
    )
    newest = _first(found, lambda row: (row.symbol, row.role))
    return [_report(row) for row in sorted(newest, key=lambda row: (row.symbol, row.role))]


def _seen(context: ToolContext) -> tuple[Any, ...]:
    return seen_runs(context.account, context.market.name, context.clock.now())


def seen_runs(account: Any, market: Any, now: Any) -> tuple[Any, ...]:
    """Conditions on Run: of an account and a market, and not of later than now. Each a value or a bind parameter."""
    return Run.account == account, Run.market == market, col(Run.market_now) <= now


def _first(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> list[Row]:
    """The first row of each key, in order."""
    kept: dict[Hashable, Row] = {}
    for row in rows:
        kept.setdefault(key(row), row)
    return list(kept.values())


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
        "spokenBy": row.spoken_by,
        "marketAt": row.market_at.isoformat(),
        "runId": row.run_id,
    }


REPORT_LATEST = ToolSpec(
    name="report_latest",
    description=(
        "What this desk said last of up to 150 symbols: the newest verdict, and each role's newest report with summary "
        "and key risks."
    ),
    arguments=ReportArguments,
    function=report_latest,
    data=False,
)
