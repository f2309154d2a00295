"""Token budgets of a run and of a UTC day, and the estimated price of a run, counted from the turns in the database.

A budget is checked before a turn begins and not while it runs, so it is overrun by the turns in flight at that moment.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy
from sqlalchemy import ColumnElement, Select, case, func, or_
from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from chordesk.models.answers import Frozen, ReportStatus
from chordesk.models.events import DESK
from chordesk.models.model_prices import LOCAL, NO_PRICE, Price, model_of, price_of, prices
from chordesk.models.notice_channels import NoticeKind
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import BACKTEST, is_backtest, research_account
from chordesk.models.states import RunKind
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Report, Run, Step, Turn
from chordesk.tasks.engine import kinds

if TYPE_CHECKING:
    from chordesk.models.tables.runtime import Notice

PREFIX = "budget: "
RULES = "rulebook"
RUN = "run"


class BudgetUse(Frozen):
    """Tokens used of a budget's limit, without those that the provider did not count. scope: `run` or `UTC day`."""

    scope: str
    used: int
    limit: int
    setting: str

    @property
    def reason(self) -> str:
        """Return why a turn may not begin, as a skipped report has it."""
        return f"{PREFIX}the {self.scope} has used {self.used:,} of {self.limit:,} tokens ({self.setting})"


class Cost(Frozen):
    """Estimate of what turns cost. usd: of those with tokens and a price, None when there are none. unpriced: models
    without a known price. uncounted: number of turns without figures of tokens. rules: turns of rules, which are no
    model and have no price, are among them. local: turns of local models, which cost nothing, are among them."""

    usd: float | None = None
    unpriced: list[str] = []
    uncounted: int = 0
    rules: bool = False
    local: bool = False

    def __str__(self) -> str:
        parts = []
        if self.usd or (self.usd is not None and not self.local):
            figure = f"{self.usd:,.2f}" if self.usd >= 0.1 or not self.usd else f"{self.usd:.4f}"
            parts.append(f"{'at least' if self.unpriced or self.uncounted else 'about'} {figure} USD")
        if self.unpriced:
            parts.append(f"the price of {', '.join(self.unpriced)} is unknown (DESK_PRICES)")
        if self.uncounted:
            parts.append(f"the provider counted no tokens of {self.uncounted} turns")
        if self.local:
            parts.append(NO_PRICE)
        if self.rules:
            parts.append("no price for rules, which are no model")
        return "; ".join(parts) or "none yet"


class DayUse(Frozen):
    """Tokens of a UTC day and their estimated cost."""

    tokens: int
    cost: Cost


class Reused(Frozen):
    """What was not asked anew (DESK_REUSE): reports and shards of screens, and the tokens of their first turns."""

    reports: int = 0
    shards: int = 0
    tokens: int = 0

    def __str__(self) -> str:
        of = [f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in self._counts if count]
        return f"{', '.join(of) or 'nothing'}; {self.tokens:,} tokens not spent"

    @property
    def _counts(self) -> list[tuple[int, str]]:
        return [(self.reports, "report"), (self.shards, "shard")]


def used_up(session: Session, settings: Settings, run_id: str, unwritten: int = 0) -> BudgetUse | None:
    """None while both have something left. unwritten: tokens of the run's turns that are not in the database yet."""
    for one in usage_of_budgets(session, settings, run_id):
        if one.used + unwritten >= one.limit:
            return one.model_copy(update={"used": one.used + unwritten})
    return None


def notice_of(use: BudgetUse, run_id: str) -> Notice:
    from chordesk.models.tables.runtime import Notice  # what reads alone has no use for its tables

    of_run = use.scope == RUN
    which = run_id if of_run else f"{utcnow():%Y-%m-%d}"
    key = f"{NoticeKind.BUDGET_REACHED}:{which}:{use.limit}"
    facts = {"scope": use.scope, "used": use.used, "limit": use.limit}
    kind = NoticeKind.BUDGET_REACHED.value
    return Notice(key=key, kind=kind, subject=use.scope, facts=facts, run_id=run_id if of_run else DESK)


def has_spare(session: Session, settings: Settings, run_id: str) -> bool:
    """Return whether each budget is less than half used: then turns that may turn out needless are affordable."""
    return all(2 * one.used < one.limit for one in usage_of_budgets(session, settings, run_id))


def was_run() -> ColumnElement[bool]:
    """Return the condition that a turn was begun, unlike the row of one that a budget skipped."""
    return col(Turn.status) != ReportStatus.SKIPPED


def usage_of_budgets(session: Session, settings: Settings, run_id: str) -> Iterator[BudgetUse]:
    """0 tokens is no limit. Backtests that rules play use up none: a year of them costs nothing."""
    of_run, of_day = settings.budget_run_tokens, settings.budget_day_tokens
    if (not of_run and not of_day) or (is_backtest(settings.account) and settings.provider == RULES):
        return
    first = _first_id(utcnow())
    conditions = (col(Turn.run_id) == run_id, col(Turn.id) >= first)
    sums = (sqlalchemy.select(func.sum(col(Turn.total_tokens))).where(one).scalar_subquery() for one in conditions)
    used: Select[Any] = sqlalchemy.select(*(func.coalesce(one, 0) for one in sums))
    by_run, by_day = session.connection().execute(used).one()
    if of_day and 2 * by_day >= of_day:
        by_day -= _simulated(session, first)
    if of_run:
        yield BudgetUse(scope=RUN, used=by_run, limit=of_run, setting="DESK_BUDGET_RUN_TOKENS")
    if of_day:
        yield BudgetUse(scope="UTC day", used=by_day, limit=of_day, setting="DESK_BUDGET_DAY_TOKENS")


def _simulated(session: Session, first: str) -> int:
    own = sqlalchemy.select(col(Run.id)).where(col(Run.account).startswith(BACKTEST))
    return _tokens(session, col(Turn.id) >= first, col(Turn.provider) == RULES, col(Turn.run_id).in_(own))


def _tokens(session: Session, *which: ColumnElement[bool]) -> int:
    tokens: Select[Any] = sqlalchemy.select(func.coalesce(func.sum(col(Turn.total_tokens)), 0)).where(*which)
    return int(session.connection().execute(tokens).scalar_one())


def _first_id(now: dt.datetime) -> str:
    """Ids begin with their time, so the primary key's index finds the day's turns."""
    midnight = now.astimezone(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return f"{int(midnight.timestamp() * 1000):012x}"


def use_of_day(session: Session, settings: Settings) -> DayUse:
    first = _first_id(utcnow())
    tokens = _tokens(session, col(Turn.id) >= first) - _simulated(session, first)
    return DayUse(tokens=tokens, cost=cost_of_turns(session, settings, col(Turn.id) >= first))


def cost_of_turns(session: Session, settings: Settings, which: ColumnElement[bool]) -> Cost:
    """which: of which turns."""
    rows = session.execute(_spent(which, (col(Turn.provider), col(Turn.model)))).all()
    return _cost(rows, prices(settings.prices))


def reused_of_day(session: Session) -> Reused:
    """Of runs that were opened today; a backtest's sessions are past ones."""
    found = col(Run.summary)["reused"]
    sums = (func.coalesce(func.sum(found[name].as_integer()), 0) for name in Reused.model_fields)
    own = col(Run.id) >= _first_id(utcnow()), col(Run.account).not_like(f"{BACKTEST}%")
    row = session.connection().execute(sqlalchemy.select(*sums).where(*own)).one()
    return Reused(**dict(zip(Reused.model_fields, row, strict=True)))


def cut_short(session: Session, run_id: str) -> str | None:
    """The reason of the first skipped report or grouped step; None when no budget cut the run short."""
    report = session.exec(
        select(Report.reason)
        .where(Report.run_id == run_id, Report.status == ReportStatus.SKIPPED)
        .order_by(col(Report.created_at))
        .limit(1)
    ).first()
    if report is not None:
        return report
    steps = session.exec(select(Step).where(Step.run_id == run_id, col(Step.kind).in_(kinds.grouped()))).all()
    return next(iter(skipped(steps)), None)


def skipped(steps: Iterable[Step]) -> list[str]:
    reasons = (str(step.result.get("reason") or "") for step in steps if step.result.get("status") == "skipped")
    return [why for why in reasons if why.startswith(PREFIX)]


def cost_of(session: Session, settings: Settings, run_id: str) -> Cost:
    """What runtimes know their turns to cost, and the listed prices of the tokens of all others."""
    return costs_of(session, settings, [run_id])[run_id]


def costs_of(session: Session, settings: Settings, run_ids: Sequence[str]) -> dict[str, Cost]:
    """Return the estimates for several runs, by one query; a backtest's is that of all its days."""
    owners = {run_id: {run_id} for run_id in run_ids}
    own = select(Run.id, Run.account).where(col(Run.id).in_(run_ids), Run.kind == RunKind.BACKTEST)
    for run_id, account in session.exec(own).all():
        for day in session.exec(runs_of_backtest(account)).all():
            owners.setdefault(day, set()).add(run_id)
    rows: dict[str, list[Any]] = {run_id: [] for run_id in run_ids}
    by = (col(Turn.run_id), col(Turn.provider), col(Turn.model))
    for row in session.execute(_spent(col(Turn.run_id).in_(owners), by)).all():
        for run_id in owners[row.run_id]:
            rows[run_id].append(row)
    known = prices(settings.prices)
    return {run_id: _cost(found, known) for run_id, found in rows.items()}


def runs_of_backtest(account: str) -> SelectOfScalar[str]:
    return select(Run.id).where(col(Run.account).in_((account, research_account(account))))


def _cost(rows: Sequence[Any], known: Mapping[str, Price]) -> Cost:
    models = [row for row in rows if row.provider != RULES]
    usd = [row.usd for row in models if row.usd is not None]
    others = [row for row in models if row.usd is None]
    usd += [
        price.of(row.read or 0, row.cached or 0, row.written or 0)
        for row in others
        if (price := price_of(row.model, known)) is not None and (row.read, row.written) != (None, None)
    ]
    return Cost(
        usd=round(sum(usd), 6) if usd else None,
        unpriced=sorted({model_of(row.model) for row in others if price_of(row.model, known) is None}),
        uncounted=sum(row.without for row in models if not row.model.startswith(LOCAL)),
        rules=len(models) < len(rows),
        local=any(row.model.startswith(LOCAL) for row in models),
    )


def _spent(which: ColumnElement[bool], by: Sequence[Any]) -> Select[Any]:
    """Tokens read, cached and written, and known costs. which: of which turns; by: columns to group them by."""
    without = or_(col(Turn.input_tokens).is_(None), col(Turn.output_tokens).is_(None))
    names = {"read": "input_tokens", "cached": "cached_input_tokens", "written": "output_tokens", "usd": "cost_usd"}
    sums = (func.sum(getattr(Turn, name)).label(key) for key, name in names.items())
    count = func.sum(case((without, 1), else_=0)).label("without")
    return sqlalchemy.select(*by, *sums, count).where(which, was_run()).group_by(*by, col(Turn.cost_usd).is_(None))
