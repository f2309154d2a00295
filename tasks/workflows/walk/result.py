"""What a whole walk came to: curves, costs, hit rates and scores, counted from its rows once it is over."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, select

from chordesk.models.board.questions import QuestionState
from chordesk.models.research import ReportStatus
from chordesk.models.settings.accounts import research_account
from chordesk.models.states import RunKind, StepKind, StepState
from chordesk.models.tables.backtests import BacktestSession
from chordesk.models.tables.board import Forecast
from chordesk.models.tables.orders import Account, Fill
from chordesk.models.tables.questions import Question
from chordesk.models.tables.runs import Report, Run, ScreenHit, Step, Turn, Verdict
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.budgets import RULES, was_run
from chordesk.tasks.workflows.walk.days import Walk
from chordesk.tasks.workflows.walk.rows import MISSING, backtest_runs, rows_of
from chordesk.tools.backtests.benchmarks import buy_and_hold, drawdown, equal_weight
from chordesk.tools.backtests.closes import CloseTable, closes_of
from chordesk.tools.backtests.conclusion import conclusion
from chordesk.tools.backtests.hit_rates import QUESTION, Claim, hit_rates
from chordesk.tools.backtests.sessions import later_session
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.protocol import MarketData, RecordedSessions
from chordesk.tools.scoring.records.voices import voice_forecasts
from chordesk.tools.scoring.summary import ScoredForecast, score


def backtest_figures(session: Session, run: Run) -> dict[str, Any]:
    """Return the figures of a backtest's summary: how far it came, its turns, and its result once it has one."""
    rows = rows_of(session, run.params["backtest"])
    result = session.exec(
        select(Step.result).where(
            Step.run_id == run.id, Step.kind == StepKind.BACKTEST_RESULT, Step.state == StepState.DONE
        )
    ).first()
    missing = [row for row in rows if row.state == MISSING]
    return {
        "sessions": len(rows),
        "missing": [{"day": row.day.isoformat(), "reason": row.reason} for row in missing],
        **spent(session, run.account),
        "backtest": result,
    }


def spent(session: Session, account: str) -> dict[str, Any]:
    """Return turns and tokens of a backtest's runs, as the provider counted them."""
    turns, tokens = session.exec(
        select(func.count(), func.coalesce(func.sum(Turn.total_tokens), 0)).where(
            col(Turn.run_id).in_(backtest_runs(account)), was_run()
        )
    ).one()
    return {"turns": turns, "tokens": tokens}


def result_of(desk: Desk, walk: Walk) -> dict[str, Any]:
    """Return the result of a walk as JSON values. Money is in account currency, shares are fractions.

    The outcomes of verdicts are looked up in the sessions after their days, as far as the data go.
    """
    with desk.store.read() as session:
        rows = rows_of(session, walk.backtest_id)
        capital = session.get_one(Account, walk.account).opening_cash
        cost = _cost(session, walk)
        claims = _claims(session, walk.account)
        voices, waiting = _voices(voice_forecasts(session, walk.account)), _waiting(session, walk.account)
    if not rows:
        return {"sessions": 0}
    days, horizon = [row.day for row in rows], walk.settings.question_sessions
    market = walk.market(desk, later_session(walk.market(desk, days[-1]), days[-1], horizon))
    closes = _closes(market, walk.symbols, days[0])
    return {
        **_curves(rows, _at(closes, days), capital),
        "costs": f"{walk.settings.slippage_bps:g} basis points against each fill, "
        f"{walk.settings.commission_per_share:g} a share",
        "question": QUESTION.format(sessions=horizon),
        **{name: [asdict(row) for row in hit_rates(found, closes, horizon)] for name, found in claims.items()},
        "rounds": walk.settings.rounds,
        "voices": voices,
        "forecasts_waiting": waiting,
        **cost,
    } | {"conclusion": _conclusion(rows, _at(closes, days), capital, rules=walk.settings.provider == RULES)}


def _closes(market: MarketData, symbols: Sequence[str], first: dt.date) -> CloseTable:
    assert isinstance(market, RecordedSessions)
    return closes_of(market, symbols, [day for day in market.recorded() if first <= day <= market.clock.session()])


def _at(closes: CloseTable, days: Sequence[dt.date]) -> CloseTable:
    """Return the rows of the days that were visited, each gap filled by the close before it."""
    places = [list(closes.days).index(day) for day in days]
    return CloseTable(days, closes.symbols, closes.carried()[places])


def _curves(rows: Sequence[BacktestSession], closes: CloseTable, capital: float) -> dict[str, Any]:
    """Return the curves by session, and what each comes to."""
    desk = [row.equity for row in rows]
    held, even = buy_and_hold(closes, capital), equal_weight(closes, capital)
    known = [value for value in desk if value is not None]
    exposures = [row.exposure for row in rows if row.exposure is not None]
    traded = sum(row.traded for row in rows)
    return {
        "sessions": len(rows),
        "missing": sum(row.state == MISSING for row in rows),
        "first": rows[0].day.isoformat(),
        "last": rows[-1].day.isoformat(),
        "capital": capital,
        "curve": [
            {"day": row.day.isoformat(), "equity": value, "held": round(one, 2), "equal_weight": round(other, 2)}
            for row, value, one, other in zip(rows, desk, held, even, strict=True)
        ],
        "returns": {
            "desk": known[-1] / capital - 1 if known else None,
            "held": held[-1] / capital - 1,
            "equal_weight": even[-1] / capital - 1,
        },
        "drawdown": {"desk": drawdown(desk), "held": drawdown(held), "equal_weight": drawdown(even)},
        "turnover": traded / (sum(known) / len(known)) if known else None,
        "exposure": sum(exposures) / len(exposures) if exposures else None,
        "orders": _summed(row.orders for row in rows),
        "denials": _summed(row.denials for row in rows),
        "verdicts": _summed(row.verdicts for row in rows),
    }


def _conclusion(rows: Sequence[BacktestSession], closes: CloseTable, capital: float, *, rules: bool) -> str:
    return conclusion([row.equity for row in rows], buy_and_hold(closes, capital), rules=rules)


def _summed(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    return dict(sorted(sum(map(Counter, counts), Counter[str]()).items()))


def _cost(session: Session, walk: Walk) -> dict[str, Any]:
    """Return turns, tokens and commissions, and the estimated price of all runs; None where no price is known."""
    fees = session.exec(select(func.sum(Fill.commission)).where(Fill.account == walk.account)).one() or 0.0
    runs = session.exec(
        select(Run.summary).where(col(Run.id).in_(backtest_runs(walk.account)), Run.kind != RunKind.BACKTEST)
    )
    usd = [cost["usd"] for one in runs if (cost := one.get("cost") or {}).get("usd") is not None]
    return {**spent(session, walk.account), "commission": fees, "usd": round(sum(usd), 6) if usd else None}


def _claims(session: Session, account: str) -> dict[str, list[Claim]]:
    """Return what was claimed of names: ratings by verdict and by confidence, stances by role, and lenses."""
    own = col(Run.account).in_((account, research_account(account)))
    verdicts = session.exec(
        select(Verdict.rating, Verdict.confidence, Verdict.symbol, Run.market_now)
        .join(Run, col(Run.id) == col(Verdict.run_id))
        .where(own)
    ).all()
    reports = session.exec(
        select(Report.role, Report.verdict, Report.symbol, Run.market_now)
        .join(Run, col(Run.id) == col(Report.run_id))
        .where(own, Report.status == ReportStatus.COMPLETED)
    ).all()
    hits = session.exec(
        select(ScreenHit.lens, ScreenHit.symbol, Run.market_now)
        .join(Run, col(Run.id) == col(ScreenHit.run_id))
        .where(own)
    ).all()
    return {
        "ratings": [Claim(rating, symbol, exchange_day(at)) for rating, _, symbol, at in verdicts],
        "confidences": [Claim(f"{rating} {sure}", symbol, exchange_day(at)) for rating, sure, symbol, at in verdicts],
        "roles": [Claim(f"{role} {stance}", symbol, exchange_day(at)) for role, stance, symbol, at in reports],
        "lenses": [Claim(lens, symbol, exchange_day(at)) for lens, symbol, at in hits],
    }


def _waiting(session: Session, account: str) -> int:
    """Return how many forecasts of voices are on questions that have no outcome yet."""
    asked = select(func.count()).select_from(Forecast).join(Question, col(Question.id) == col(Forecast.question_id))
    return session.exec(asked.where(Forecast.account == account, Question.state == QuestionState.OPEN)).one()


def _voices(forecasts: Sequence[ScoredForecast]) -> list[dict[str, Any]]:
    """Return the scores of each voice over the questions that have resolved; empty without rounds."""
    found = []
    for voice in sorted({one.source for one in forecasts}):
        own = score([one for one in forecasts if one.source == voice])
        if own is not None:
            figures = {"brier": own.brier.mean, "alpha": own.alpha.mean, "error": own.alpha.error}
            found.append({"voice": voice, "questions": own.questions, "dates": own.alpha.dates, **figures})
    return found
