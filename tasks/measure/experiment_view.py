"""Experiments, read: the arms' courses, their differences, and what each cost."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence

from pydantic import Field
from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import in_run, research_account
from chordesk.models.states import RunKind, RunState
from chordesk.models.tables.runs import Run, Verdict
from chordesk.models.text import one_line
from chordesk.tasks.engine.budgets import Cost, cost_of
from chordesk.tasks.reading.runs import backtest_rows, blocked_summary
from chordesk.tools.market.clock import day_of
from chordesk.tools.market.factory import build_market, configured_market
from chordesk.tools.market.past_sessions import later_session
from chordesk.tools.market.prices import STALE_DAYS
from chordesk.tools.market.protocol import MarketData, RecordedSessions
from chordesk.tools.measure.experiments import Call, Course, Difference, Other, compare, differing
from chordesk.tools.prices.close_table import closes_of

_WHY_CHARS = 200
LISTED = 500  # newest backtests, among which experiments are looked for


class ExperimentArm(Frozen):
    """An arm's backtest."""

    arm: str
    run_id: str
    state: str


class ExperimentRow(Frozen):
    """An experiment in a list: its arms, the first as what the others are compared with."""

    id: str
    created_at: dt.datetime
    first: dt.date
    last: dt.date
    sessions: int
    arms: list[ExperimentArm]


class ArmDetail(Frozen):
    """An arm: its settings in place of the desk's, its return over all sessions, and what it cost."""

    arm: str
    run_id: str
    changes: dict[str, str]
    sessions: int
    returned: float | None
    tokens: int
    cost: Cost


class ExperimentDetail(Frozen):
    """Arms of one history, the first as what the others are compared with. differences: less the first; others: by arm,
    the names judged apart. horizon: sessions after which a judgement is scored."""

    arms: list[ArmDetail]
    differences: list[Difference]
    others: dict[str, list[Other]] = Field(default_factory=dict)
    horizon: int


def list_experiments(session: Session) -> list[ExperimentRow]:
    """Return the experiments, the newest first."""
    newest = select(Run).where(Run.kind == RunKind.BACKTEST).order_by(col(Run.id).desc()).limit(LISTED)
    found: dict[str, list[Run]] = defaultdict(list)
    for run in session.exec(newest):
        if id_ := run.params.get("experiment"):
            found[id_].insert(0, run)
    return [_experiment_row(id_, runs) for id_, runs in found.items()]


def _experiment_row(id_: str, runs: Sequence[Run]) -> ExperimentRow:
    days = runs[0].params["days"]
    return ExperimentRow(
        id=id_,
        created_at=runs[0].created_at,
        first=days[0],
        last=days[-1],
        sessions=len(days),
        arms=[ExperimentArm(arm=run.params["arm"], run_id=run.id, state=run.state) for run in runs],
    )


def arms_of(session: Session, id_: str) -> list[str]:
    """Return the runs of an experiment by its id, or the beginning of it. Raises NotFound."""
    named = [row for row in list_experiments(session) if row.id.startswith(id_)]
    if len(named) != 1:
        raise NotFound(f"{len(named)} experiments begin with {id_!r}", remedy="GET /experiments lists them")
    return [arm.run_id for arm in named[0].arms]


def experiment(
    session: Session, settings: Settings, run_ids: Sequence[str], size: float | None = None
) -> ExperimentDetail:
    """size: of a session's return, the difference to look for. Raises UsageError for runs that are no backtests, have
    not ended, or were not played on the same sessions of the same market and names."""
    runs = [session.get_one(Run, run_id) for run_id in run_ids]
    _require_pairs(runs)
    courses = [_course(session, run) for run in runs]
    horizon, days = settings.question_sessions, sorted(courses[0].equity)
    market = _market_after(settings, runs[0], days[-1], horizon + STALE_DAYS)
    assert isinstance(market, RecordedSessions)
    later = [day for day in market.recorded() if days[0] <= day <= market.clock.session()]
    pays = in_run(settings, runs[0].settings, runs[0].account).delisted_pays
    closes = closes_of(market, runs[0].params["symbols"], later, pays)
    return ExperimentDetail(
        arms=[_arm(session, settings, run, course) for run, course in zip(runs, courses, strict=True)],
        differences=compare(courses, lambda symbol, day: closes.outcome(symbol, day, horizon), horizon, size),
        others={course.arm: differing(courses[0], course) for course in courses[1:]},
        horizon=horizon,
    )


def _market_after(settings: Settings, run: Run, day: dt.date, sessions: int) -> MarketData:
    """Return the market as of so many sessions after a day, or of the last one there is."""
    used = in_run(settings, run.settings, run.account)
    key = configured_market(used)._replace(day=day)
    return build_market(used, key._replace(day=later_session(build_market(used, key), day, sessions)))


def _require_pairs(runs: Sequence[Run]) -> None:
    if len(runs) < 2:
        raise UsageError("an experiment has two arms or more", remedy="name two backtests or more")
    if twice := [run.id for at, run in enumerate(runs) if run in runs[:at]]:
        raise UsageError(f"backtest {twice[0]} is named twice", remedy="name another one")
    for run in runs:
        if run.kind != RunKind.BACKTEST:
            raise UsageError(f"run {run.id} is no backtest but a {run.kind}", remedy="name backtests")
        if run.state not in (RunState.DONE, RunState.PARTIAL):
            raise UsageError(f"backtest {run.id} is {run.state}", remedy="wait for it, or go on with --resume")
        if (off := blocked_summary(run)) is not None:
            reason = f"backtest {run.id} is blocked: {off}"
            raise UsageError(reason, remedy="play it again once its orders can pass: a comparison would be of nothing")
        missing = run.summary.get("missing", [])
        if missing and len(missing) >= len(run.params["days"]):
            reason = f"every session of backtest {run.id} is missing: {missing[0]['reason']}"
            raise UsageError(reason, remedy=f"`desk runs show {run.id}`, then play it again")
    first = runs[0]
    for run in runs[1:]:
        for what, one, two in (
            ("market", first.market, run.market),
            ("days", first.params["days"], run.params["days"]),
            ("names", first.params["symbols"], run.params["symbols"]),
        ):
            if one != two:
                reason = f"backtests {first.id} and {run.id} have other {what}"
                raise UsageError(reason, remedy="arms are played on the same history")


def _course(session: Session, run: Run) -> Course:
    rows = backtest_rows(session, run.params["backtest"])
    own = col(Run.account).in_((run.account, research_account(run.account))), Run.state != RunState.STOPPED
    verdicts = session.exec(
        select(Verdict, Run.market_now).join(Run, col(Run.id) == col(Verdict.run_id)).where(*own)
    ).all()
    calls = {
        (one.symbol, day_of(at, one.symbol)): Call(
            one.rating, (one.pooled or {}).get("probability"), one.id, one_line(one.summary, _WHY_CHARS)
        )
        for one, at in verdicts
    }
    opening: dict[dt.date, float | None] = {row.day: row.equity for row in rows}
    return Course(run.params.get("arm") or run.id, run.id, opening, calls, int(run.summary.get("tokens", 0)))


def _arm(session: Session, settings: Settings, run: Run, course: Course) -> ArmDetail:
    values = [course.equity[day] for day in sorted(course.equity)]
    known = [value for value in values if value is not None]
    capital = float(run.summary["backtest"]["capital"])
    return ArmDetail(
        arm=course.arm,
        run_id=run.id,
        changes=run.params.get("changes", {}),
        sessions=len(values),
        returned=known[-1] / capital - 1 if known else None,
        tokens=course.tokens,
        cost=cost_of(session, settings, run.id),
    )


_LEAST_SESSIONS = 10


def spread_of_backtests(session: Session, market: str) -> tuple[float, float, int] | None:
    """Return standard deviation of the sessions' returns, tokens a session and sessions of the market's newest ended
    backtest; None without one of ten sessions."""
    ended = select(Run).where(Run.kind == RunKind.BACKTEST, Run.market == market, Run.state == RunState.DONE)
    for run in session.exec(ended.order_by(col(Run.created_at).desc()).limit(20)).all():
        if blocked_summary(run) is not None:
            continue
        equity = {row.day: row.equity for row in backtest_rows(session, run.params["backtest"])}
        returns = list(Course("", run.id, equity, {}, 0).returns().values())
        if len(equity) >= _LEAST_SESSIONS and len(returns) > 1:
            mean = sum(returns) / len(returns)
            variance = sum((one - mean) ** 2 for one in returns) / (len(returns) - 1)
            return variance**0.5, float(run.summary.get("tokens", 0)) / len(equity), len(equity)
    return None
