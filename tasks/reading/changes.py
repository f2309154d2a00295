"""What changed on an account since a moment: runs, ratings, orders, fills, theses, plans, halts, settings, money.

One reading for `desk changes`, `GET /changes`, the page and whoever answers questions. Moments are real time, also
where the market is a replay: the question is what a person has missed.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import and_, tuple_
from sqlalchemy import select as fields
from sqlmodel import Session, col, func, select

from chordesk.models import features
from chordesk.models.answers import Frozen
from chordesk.models.errors import UsageError
from chordesk.models.exchanges import zone_of
from chordesk.models.notice_channels import NoticeKind
from chordesk.models.settings import Settings
from chordesk.models.states import RUN_FINAL, OrderState, TradingState
from chordesk.models.tables.board import Question, ThesisQuestion
from chordesk.models.tables.orders import EquityMark, Fill, Order
from chordesk.models.tables.runs import Report, Run, Turn, Verdict
from chordesk.models.tables.runtime import Notice
from chordesk.tasks.reading.chain import order_label
from chordesk.tasks.reading.run_details import outcome
from chordesk.tools.decimals import exact, plain
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.risk.codes import variable_name

ChangeKind = Literal["run", "verdict", "order", "fill", "thesis", "plan", "trading", "setting", "notice"]
MOST = 200  # that are read of one kind, and that are listed


class Change(Frozen):
    """One thing that changed. at: real time; subject: symbol, account or setting, empty of a run; run_id, order_id:
    where a person looks at it."""

    kind: ChangeKind
    at: dt.datetime
    subject: str
    text: str
    run_id: str | None = None
    order_id: str | None = None


class Changes(Frozen):
    """The newest first, at most as many as were asked for; counts: by kind, MOST at most of each.
    equity_before: at the account's last mark before `since`; equity: at its newest; None without a mark. tokens: of
    turns that ended since."""

    account: str
    currency: str
    since: dt.datetime
    changes: list[Change]
    counts: dict[str, int]
    equity_before: float | None
    equity: float | None
    tokens: int


def last_close(settings: Settings, now: dt.datetime) -> dt.datetime:
    """Return when the desk's exchange last closed on a day before now's: what people mean by "since yesterday"."""
    hours = exchange_hours(settings.exchange)
    midnight = now.astimezone(hours.zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return hours.close_of(hours.last_closed(midnight))


_SPANS: Mapping[str, dt.timedelta] = {
    "m": dt.timedelta(minutes=1),
    "h": dt.timedelta(hours=1),
    "d": dt.timedelta(days=1),
    "w": dt.timedelta(weeks=1),
}


def since_of(text: str | None, settings: Settings, now: dt.datetime) -> dt.datetime:
    """Return the moment that a text names: 90m, 6h, 2d, 1w before now; a day, from its midnight at the desk's exchange;
    or a time with its offset. None is the last close. Raises UsageError for another text and for a moment to come."""
    if text is None:
        return last_close(settings, now)
    given = text.strip()
    try:
        if given[-1:] in _SPANS and given[:-1].isascii() and given[:-1].isdigit():
            found = now - int(given[:-1]) * _SPANS[given[-1]]
        else:
            found = dt.datetime.fromisoformat(given)
            if found.tzinfo is None:
                found = found.replace(tzinfo=zone_of(settings.exchange))
        found = found.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        remedy = "write 90m, 6h, 2d or 1w, a day such as 2026-11-27, or a time such as 2026-11-27T09:30"
        raise UsageError(f"--since {text!r} is no moment", remedy=remedy) from None
    if found > now:
        raise UsageError(f"--since {text!r} is still to come", remedy="name a moment that has passed")
    return found


@dataclass(frozen=True, slots=True)
class _Span:
    """From `since` on, and before `until` where there is one."""

    since: dt.datetime
    until: dt.datetime | None

    def has(self, column: Any) -> Any:
        return column >= self.since if self.until is None else and_(column >= self.since, column < self.until)


def changes(
    session: Session,
    settings: Settings,
    account: str,
    since: dt.datetime,
    most: int = MOST,
    until: dt.datetime | None = None,
) -> Changes:
    """until: the moment before which it happened, None for now."""
    span = _Span(since, until)
    readers = (_runs, _ratings, _orders, _fills, _theses, _notices, _settings)
    found = [change for reader in readers for change in reader(session, account, span)]
    found.sort(key=lambda one: (one.at, one.kind, one.subject), reverse=True)
    before, equity = _equity(session, account, span)
    spent = select(func.coalesce(func.sum(Turn.total_tokens), 0)).join(Run, col(Run.id) == col(Turn.run_id))
    # What a run came to is read of several tables: only of those that are shown.
    listed = [_told(session, one) if one.kind == "run" else one for one in found[:most]]
    return Changes(
        account=account,
        currency=settings.currency,
        since=since,
        changes=listed,
        counts=dict(Counter(one.kind for one in found)),
        equity_before=before,
        equity=equity,
        tokens=session.exec(spent.where(Run.account == account, span.has(col(Turn.finished_at)))).one() or 0,
    )


def _runs(session: Session, account: str, span: _Span) -> Iterator[Change]:
    """Yield the runs that ended, without their text."""
    ended = select(Run.id, Run.finished_at).where(
        Run.account == account, col(Run.state).in_(RUN_FINAL), span.has(col(Run.finished_at))
    )
    ended = ended.where(col(Run.parent_run_id).is_(None), col(Run.kind).not_in(features.places("asides")))
    for run_id, finished_at in session.exec(ended.order_by(col(Run.finished_at).desc()).limit(MOST)).all():
        if finished_at is not None:
            yield Change(kind="run", at=finished_at, subject="", text="", run_id=run_id)


def _told(session: Session, change: Change) -> Change:
    return change.model_copy(update={"text": outcome(session, session.get_one(Run, change.run_id))})


def _ratings(session: Session, account: str, span: _Span) -> Iterator[Change]:
    """Yield the verdicts whose rating is another than that of the symbol's verdict before; a first one is none."""
    columns = (Verdict.symbol, Verdict.rating, Verdict.confidence, Verdict.created_at, Verdict.id, Verdict.run_id)
    own = fields(*map(col, columns)).join(Run, col(Run.id) == col(Verdict.run_id)).where(col(Run.account) == account)
    own = own.order_by(col(Verdict.created_at).desc(), col(Verdict.id).desc())
    rows = session.execute(own.where(span.has(col(Verdict.created_at))).limit(MOST)).all()
    later: dict[str, Any] = {}  # by symbol, the verdict that came after those of the loop
    pairs = []
    for row in rows:
        if row.symbol in later:
            pairs.append((later[row.symbol], row))
        later[row.symbol] = row
    for row in later.values():  # the first of each symbol here: the one before it is older than all of them
        earlier = own.where(
            col(Verdict.symbol) == row.symbol, tuple_(Verdict.created_at, Verdict.id) < (row.created_at, row.id)
        )
        if (before := session.execute(earlier.limit(1)).first()) is not None:
            pairs.append((row, before))
    for row, before in pairs:
        if before.rating != row.rating:
            text = f"{row.symbol}: {before.rating} became {row.rating} ({row.confidence})"
            yield Change(kind="verdict", at=row.created_at, subject=row.symbol, text=text, run_id=row.run_id)


def _orders(session: Session, account: str, span: _Span) -> Iterator[Change]:
    """Yield the orders that moved; what was filled is told by its fills."""
    moved = select(Order).where(Order.account == account, span.has(col(Order.updated_at)))
    moved = moved.where(col(Order.state) != OrderState.FILLED)
    for order in session.exec(moved.order_by(col(Order.updated_at).desc()).limit(MOST)).all():
        yield Change(
            kind="order", at=order.updated_at, subject=order.symbol, run_id=order.run_id, order_id=order.id,
            text=_moved(order),
        )  # fmt: skip


def _moved(order: Order) -> str:
    told = order_label(order).replace(": denied, denied: ", ": denied, ")
    return f"protective {told}" if order.protects else told


def _fills(session: Session, account: str, span: _Span) -> Iterator[Change]:
    rows = select(Fill, Order.run_id).join(Order, col(Order.id) == col(Fill.order_id))
    rows = rows.where(Fill.account == account, span.has(col(Fill.created_at)))
    for fill, run_id in session.exec(rows.order_by(col(Fill.created_at).desc()).limit(MOST)).all():
        did = "bought" if fill.side == "buy" else "sold"
        priced = f"{plain(fill.price)}{f' {fill.currency}' if fill.currency else ''}"
        yield Change(
            kind="fill", at=fill.created_at, subject=fill.symbol, run_id=run_id, order_id=fill.order_id,
            text=f"{did} {plain(fill.quantity)} {fill.symbol} at {priced}",
        )  # fmt: skip


def _theses(session: Session, account: str, span: _Span) -> Iterator[Change]:
    rows = (
        select(Report, Question, ThesisQuestion)
        .join(ThesisQuestion, col(ThesisQuestion.report_id) == col(Report.id))
        .join(Question, col(Question.id) == col(ThesisQuestion.question_id))
        .join(Run, col(Run.id) == col(Report.run_id))
        .where(Run.account == account, span.has(col(Question.resolved_at)))
        .order_by(col(Question.resolved_at).desc())
    )
    for report, question, link in session.exec(rows.limit(MOST)).all():
        came = "void" if question.outcome is None else "came true" if question.outcome >= 0.5 else "did not come true"
        ended = f", and its invalidation was reached on {link.crossed_on}" if link.crossed_on is not None else ""
        text = f"thesis of {report.role} on {report.symbol}: {came}{ended}: {question.text}"
        if question.resolved_at is not None:
            yield Change(kind="thesis", at=question.resolved_at, subject=report.symbol, text=text, run_id=report.run_id)


_OF_TRADING = (NoticeKind.HALT, NoticeKind.RESUME)


def _notices(session: Session, account: str, span: _Span) -> Iterator[Change]:
    """Yield halts and reviews, and what features note; runs, orders and fills have changes of their own."""
    words = NoticeKind.of_features()
    kinds = [*(str(one) for one in _OF_TRADING), str(NoticeKind.PLAN_REVIEW), *words]
    rows = select(Notice).where(span.has(col(Notice.occurred_at)), col(Notice.kind).in_(kinds))
    for notice in session.exec(rows.order_by(col(Notice.occurred_at).desc()).limit(MOST)).all():
        if notice.facts.get("account") not in (None, account):
            continue
        yield Change(
            kind=_kind_of(notice), at=notice.occurred_at, subject=notice.subject, text=_said(notice, words),
            run_id=notice.facts.get("run_id"), order_id=notice.facts.get("order"),
        )  # fmt: skip


def _kind_of(notice: Notice) -> ChangeKind:
    if notice.kind in _OF_TRADING:
        return "trading"
    return "plan" if notice.kind == NoticeKind.PLAN_REVIEW else "notice"


def _said(notice: Notice, words: Mapping[str, Any]) -> str:
    facts = notice.facts
    if notice.kind in _OF_TRADING:
        state, why, by = facts.get("state"), facts.get("why"), facts.get("by")
        begun = "trades again" if state == TradingState.ACTIVE else f"is {str(state).replace('_', ' ')}"
        return f"{notice.subject} {begun}{f', by {by}' if by else ''}{f': {why}' if why else ''}"
    if notice.kind == NoticeKind.PLAN_REVIEW:
        return f"the plan of {notice.subject} is to be reviewed"
    return f"{words[notice.kind].one}{f': {notice.subject}' if notice.subject else ''}"


def _settings(session: Session, account: str, span: _Span) -> Iterator[Change]:
    """Yield the settings in which runs since differ from the one before them, each at the run that had it first. Kinds
    that lists leave out have budgets of their own, which are no change of the desk's."""
    own = select(Run.id, Run.created_at, Run.settings).where(Run.account == account, col(Run.parent_run_id).is_(None))
    own = own.where(col(Run.kind).not_in(features.places("asides")))
    own = own.where(col(Run.settings).is_not(None)).order_by(col(Run.created_at).desc())
    before = session.exec(own.where(col(Run.created_at) < span.since).limit(1)).first()
    rows = session.exec(own.where(span.has(col(Run.created_at))).limit(MOST)).all()
    known: Mapping[str, Any] | None = before[2] if before is not None else None
    for run_id, created_at, settings in reversed(rows):
        now: Mapping[str, Any] = settings or {}
        for name in sorted(known.keys() & now.keys()) if known is not None else ():
            if known is not None and known[name] != now[name]:
                text = f"{variable_name(name)} was {_value(known[name])}, is {_value(now[name])}"
                yield Change(kind="setting", at=created_at, subject=name, text=text, run_id=run_id)
        known = now


def _value(value: Any) -> str:
    text = "not set" if value in (None, "") else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _equity(session: Session, account: str, span: _Span) -> tuple[float | None, float | None]:
    own = select(EquityMark).where(EquityMark.account == account)
    by_day = own.order_by(col(EquityMark.day).desc())
    newest = session.exec(
        (by_day if span.until is None else by_day.where(col(EquityMark.updated_at) < span.until)).limit(1)
    ).first()
    earlier = by_day.where(col(EquityMark.updated_at) <= span.since)
    if (before := session.exec(earlier.limit(1)).first()) is not None:
        return before.last, newest.last if newest is not None else None
    first = session.exec(own.where(span.has(col(EquityMark.updated_at))).order_by(col(EquityMark.day)).limit(1)).first()
    return (first.opening if first is not None else None), newest.last if newest is not None else None


_NAMES: Mapping[ChangeKind, tuple[str, str]] = {
    "run": ("run ended", "runs ended"),
    "verdict": ("rating changed", "ratings changed"),
    "order": ("order moved", "orders moved"),
    "fill": ("fill", "fills"),
    "thesis": ("thesis resolved", "theses resolved"),
    "plan": ("plan to be reviewed", "plans to be reviewed"),
    "trading": ("halt or resumption", "halts or resumptions"),
    "setting": ("setting changed", "settings changed"),
    "notice": ("notice", "notices"),
}


def summary(found: Changes, since: str) -> str:
    """Return what changed in one sentence. since: the moment as text."""
    counts = ((_NAMES[kind], found.counts.get(kind, 0)) for kind in _NAMES)
    told = [f"{count} {one if count == 1 else several}" for (one, several), count in counts if count]
    if found.equity is not None and found.equity_before is not None:
        moved = exact(found.equity) - exact(found.equity_before)
        told.append(f"equity {found.equity:,.2f} {found.currency}, {moved:+,.2f}")
    told.append(f"{found.tokens:,} tokens")
    return f"{found.account} since {since}: {', '.join(told) if found.counts else f'nothing but {told[-1]}'}"
