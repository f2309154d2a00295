"""What the desk's own rows say of an alert's condition: verdicts, theses, plans, equity, tokens, orders, runs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import pairwise

from sqlmodel import Session, col, select

from chordesk.models.notice_channels import NoticeKind
from chordesk.models.settings import Settings
from chordesk.models.states import ApprovalState, RunState
from chordesk.models.tables.board import ThesisQuestion
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Approval, EquityMark, Order
from chordesk.models.tables.runs import Report, Run, Verdict
from chordesk.models.tables.runtime import Notice
from chordesk.models.text import SHORT_ID
from chordesk.tasks.engine.budgets import use_of_day
from chordesk.tools.alerts.conditions import Condition
from chordesk.tools.alerts.crossing import Tick
from chordesk.tools.alerts.market_looks import Look
from chordesk.tools.market.clock import account_day

MOST = 100  # of the newest rows that a look reads
Happened = tuple[str, str]  # an id, and a sentence


def row_look(session: Session, settings: Settings, condition: Condition, symbol: str) -> Look:
    now = utcnow()
    match condition.kind.name:
        case "drawdown":
            return _drawdown(session, settings, condition, now)
        case "spend":
            tokens, most = use_of_day(session, settings).tokens, condition.given["threshold"]
            text = f"{tokens:,} tokens were spent in this UTC day"
            return _measured(now, now.date(), tokens / most - 1, float(tokens), most, text)
        case "verdict":
            found = _verdicts(session, settings, symbol)
        case "thesis":
            found = _theses(session, settings, symbol)
        case "review":
            found = _reviews(session, settings)
        case "waiting":
            found = _waiting(session, settings, now - dt.timedelta(minutes=condition.given["threshold"]))
        case _:
            found = _failed(session, settings)
    return Look(found=list(found))


def _measured(at: dt.datetime, day: dt.date, beyond: float, value: float, most: float, text: str) -> Look:
    return Look(ticks=[Tick(at, day, beyond)], value=value, reference=most, texts=[text])


def _drawdown(session: Session, settings: Settings, condition: Condition, now: dt.datetime) -> Look:
    marks = select(EquityMark).where(EquityMark.account == settings.account).order_by(col(EquityMark.day).desc())
    mark, share = session.exec(marks).first(), condition.given["threshold"]
    if mark is None or mark.high_water <= 0:
        why = f"the equity of {settings.account} was never marked"
        return Look(ticks=[Tick(now, account_day(now), None, why)], why=why)
    down = 1 - mark.last / mark.high_water
    text = f"equity is {down:.1%} below its highest, {mark.high_water:,.2f}"
    return _measured(now, mark.day, down / share - 1, down, share, text)


def _verdicts(session: Session, settings: Settings, symbol: str) -> Iterator[Happened]:
    rows = select(Verdict).join(Run, col(Run.id) == col(Verdict.run_id))
    rows = rows.where(Run.account == settings.account, Verdict.symbol == symbol)
    found = session.exec(rows.order_by(col(Verdict.created_at).desc(), col(Verdict.id).desc()).limit(MOST)).all()
    for later, before in pairwise(found):
        if later.rating != before.rating:
            yield later.id, f"{before.rating} became {later.rating} ({later.confidence})"


def _theses(session: Session, settings: Settings, symbol: str) -> Iterator[Happened]:
    rows = (
        select(Report, ThesisQuestion)
        .join(ThesisQuestion, col(ThesisQuestion.report_id) == col(Report.id))
        .join(Run, col(Run.id) == col(Report.run_id))
        .where(Run.account == settings.account, Report.symbol == symbol, col(ThesisQuestion.crossed_on).is_not(None))
        .order_by(col(Report.created_at).desc())
    )
    for report, link in session.exec(rows.limit(MOST)).all():
        yield report.id, f"what ends the thesis of {report.role} was reached on {link.crossed_on}"


def _reviews(session: Session, settings: Settings) -> Iterator[Happened]:
    rows = select(Notice).where(Notice.kind == NoticeKind.PLAN_REVIEW.value).order_by(col(Notice.occurred_at).desc())
    for one in session.exec(rows.limit(MOST)).all():
        if one.facts.get("account") in (None, settings.account):
            yield one.key, f"the plan of {one.subject} is to be reviewed"


def _waiting(session: Session, settings: Settings, before: dt.datetime) -> Iterator[Happened]:
    rows = select(Approval, Order).join(Order, col(Order.id) == col(Approval.order_id))
    rows = rows.where(Order.account == settings.account, Approval.state == ApprovalState.PENDING.value)
    for approval, order in session.exec(rows.where(col(Approval.asked_at) <= before).limit(MOST)).all():
        yield (
            approval.id,
            f"the order {order.id[:SHORT_ID]} on {order.symbol} waits since {approval.asked_at:%H:%M} UTC",
        )


def _failed(session: Session, settings: Settings) -> Iterator[Happened]:
    rows = select(Run).where(Run.account == settings.account, Run.state == RunState.FAILED)
    for run in session.exec(rows.order_by(col(Run.finished_at).desc()).limit(MOST)).all():
        yield run.id, f"the {run.kind} {run.id[:SHORT_ID]} failed"
