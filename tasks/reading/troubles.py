"""What keeps the desk from trading, and what went wrong lately: halts with the orders that they denied, runs that
failed or are not whole, orders that were refused, messages that were given up."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from sqlmodel import Session, col, func, select

from chordesk.models.answers import Frozen
from chordesk.models.notice_channels import NotificationState
from chordesk.models.orders import DenialCode
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import BACKTEST, is_backtest
from chordesk.models.states import OrderState, RunKind, RunState, TradingState
from chordesk.models.tables.orders import Account, Order, Trading
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import Notification
from chordesk.models.text import utc
from chordesk.tasks.reading.run_details import outcome
from chordesk.tasks.reading.run_list import opened_by_backtest
from chordesk.tools.orders import halting
from chordesk.tools.orders.accounts import account_names

_OF_HALTS = (DenialCode.HALTED.value, DenialCode.REDUCING.value)


class DeniedOrder(Frozen):
    """An order that a halt denied. at: real time."""

    id: str
    symbol: str
    action: str
    at: dt.datetime


class HaltView(Frozen):
    """An account that may not trade, or only give exposure back.

    own: it is this desk's account, which `POST /resume` lets trade again; resume: the command that does. by: null for a
    HALT file written by hand; since: null where the file's time cannot be read. denied: its orders denied for it since;
    newest: the last of them. played: orders that backtests lost to it, of the HALT file alone, which binds them too."""

    account: str
    own: bool
    state: TradingState
    why: str
    by: str | None
    since: dt.datetime | None
    denied: int
    newest: DeniedOrder | None
    played: int
    resume: str

    def __str__(self) -> str:
        what = "is halted" if self.state is TradingState.HALTED else "gives exposure back only"
        since = f" since {utc(self.since)}" if self.since is not None else ""
        by = f" by {self.by}" if self.by is not None else ""
        return f"account {self.account} {what}{since}{by}: {self.why or 'no reason given'}; {self._denied()}"

    def _denied(self) -> str:
        if self.newest is None:
            told = "no order denied since"
        else:
            orders = "one order" if self.denied == 1 else f"{self.denied} orders"
            last = f"{self.newest.action} {self.newest.symbol} at {utc(self.newest.at)}"
            told = f"{orders} denied since, {'' if self.denied == 1 else 'the newest '}{last}"
        return f"{told}; {self.played} more of backtests" if self.played else told


def halts(session: Session, settings: Settings) -> list[HaltView]:
    """Return every account that is halted or may only reduce, this desk's own first; empty while all may trade."""
    if halting.is_filed(settings):
        names = account_names(session, settings.account)
    else:
        stopped = session.exec(select(Trading.account).where(Trading.state != TradingState.ACTIVE.value)).all()
        names = sorted(stopped, key=lambda name: (name != settings.account, name))
        names = [name for name in names if not is_backtest(name)]
    found = [stop for name in names if (stop := halting.stop_of(session, settings, name)) is not None]
    return [_halt(session, settings, stop) for stop in found]


def _halt(session: Session, settings: Settings, stop: halting.TradingStop) -> HaltView:
    own = stop.account == settings.account
    denied, newest = _denied(session, stop, col(Order.account) == stop.account)
    played = 0
    if own and stop.file:
        played, _ = _denied(session, stop, col(Order.account).startswith(BACKTEST))
    return HaltView.of(
        stop,
        own=own,
        denied=denied,
        newest=newest,
        played=played,
        resume="desk resume" if own else f"DESK_BROKER={stop.account} desk resume",
    )


def _denied(session: Session, stop: halting.TradingStop, *which: Any) -> tuple[int, DeniedOrder | None]:
    """Return how many of these orders the halt has denied, and the last one."""
    which = (*which, Order.state == OrderState.DENIED.value, col(Order.denial_code).in_(_OF_HALTS))
    if stop.since is not None:
        which = (*which, col(Order.updated_at) >= stop.since)
    count = session.exec(select(func.count()).select_from(Order).where(*which)).one()
    if not count:
        return 0, None
    newest = (col(Order.updated_at).desc(), col(Order.id).desc())
    row = session.exec(select(Order).where(*which).order_by(*newest).limit(1)).one()
    return count, DeniedOrder.of(row, symbol=row.contract or row.symbol, at=row.updated_at)


class LastRun(Frozen):
    """A run that nobody but a person or the schedule started, and what it did as one sentence."""

    run_id: str
    kind: str
    state: str
    at: dt.datetime
    said: str


def last_runs(session: Session, most: int, *conditions: Any) -> list[LastRun]:
    own = col(Run.parent_run_id).is_(None) | ((col(Run.kind) == RunKind.TRADE) & ~opened_by_backtest())
    runs = session.exec(select(Run).where(own, *conditions).order_by(col(Run.created_at).desc()).limit(most)).all()
    return [
        LastRun(run_id=run.id, kind=run.kind, state=run.state, at=run.created_at, said=outcome(session, run))
        for run in runs
    ]


TROUBLE_HOURS = 24
MOST_TROUBLES = 10
_REFUSED = (OrderState.DENIED, OrderState.REJECTED, OrderState.UNKNOWN)
# Answers of a person, which are no trouble.
_BY_A_PERSON = (DenialCode.APPROVAL_DENIED.value, DenialCode.RUN_STOPPED.value)
_CAME_TO = {
    OrderState.DENIED: "denied",
    OrderState.REJECTED: "rejected by the broker",
    OrderState.UNKNOWN: "sent without an answer of the broker",
}


class Trouble(Frozen):
    """Something that went wrong. said: in one sentence; state: of the run, orders or messages; count: how many they
    are; at: the newest, in real time. run_id: of a run, order_id: of the newest order, else null; account: of
    orders."""

    kind: Literal["run", "orders", "messages"]
    said: str
    state: str
    count: int
    at: dt.datetime
    run_id: str | None = None
    order_id: str | None = None
    account: str | None = None


def troubles(session: Session, settings: Settings, now: dt.datetime) -> list[Trouble]:
    """Return what went wrong in the last TROUBLE_HOURS, the newest first, at most MOST_TROUBLES. What a backtest's
    sessions lost is told by the backtest, which is partial then."""
    since = now - dt.timedelta(hours=TROUBLE_HOURS)
    bad = (col(Run.created_at) > since, col(Run.state).in_((RunState.FAILED, RunState.PARTIAL)))
    found = [
        Trouble(kind="run", said=one.said, state=one.state, count=1, at=one.at, run_id=one.run_id)
        for one in last_runs(session, MOST_TROUBLES, *bad)
    ]
    opened = session.exec(select(Account.name).where(~col(Account.name).startswith(BACKTEST))).all()
    found += [*_orders(session, [*{settings.account, *opened}], since), *_messages(session, since)]
    return sorted(found, key=lambda one: one.at, reverse=True)[:MOST_TROUBLES]


def _orders(session: Session, accounts: Sequence[str], since: dt.datetime) -> Iterator[Trouble]:
    """Yield orders that were refused, those of one account and one reason together."""
    code = func.coalesce(Order.denial_code, "")
    which = (
        col(Order.account).in_(accounts),
        col(Order.state).in_([state.value for state in _REFUSED]),
        col(Order.updated_at) > since,
        code.not_in(_BY_A_PERSON),
    )
    groups = select(Order.account, Order.state, code, func.count()).where(*which)
    for account, state, reason, count in session.exec(groups.group_by(Order.account, Order.state, code)).all():
        alike = (*which, Order.account == account, Order.state == state, code == reason)
        newest = (col(Order.updated_at).desc(), col(Order.id).desc())
        order = session.exec(select(Order).where(*alike).order_by(*newest).limit(1)).one()
        what = "One order" if count == 1 else f"{count} orders"
        named = f"{order.action} {order.contract or order.symbol}"
        why = order.denial_reason or order.message
        as_ = f" as {reason}" if reason else ""
        said = f"{what} of {account} {_CAME_TO[OrderState(state)]}{as_}, {'' if count == 1 else 'the newest '}{named}"
        yield Trouble(
            kind="orders", said=f"{said}: {why}" if why else said, state=state, count=count, at=order.updated_at,
            order_id=order.id, account=account,
        )  # fmt: skip


def _messages(session: Session, since: dt.datetime) -> Iterator[Trouble]:
    """Yield the notifications that were given up, by channel."""
    given_up = (Notification.state == NotificationState.GIVEN_UP, col(Notification.ended_at) > since)
    query = select(Notification.channel, func.count(), func.max(Notification.ended_at)).where(*given_up)
    for channel, count, at in session.exec(query.group_by(Notification.channel)).all():
        which = (*given_up, Notification.channel == channel)
        errors = select(Notification.error).where(*which).order_by(col(Notification.ended_at).desc())
        error = session.exec(errors.limit(1)).first()
        told = f"{'One notification' if count == 1 else f'{count} notifications'} to {channel} given up"
        yield Trouble(kind="messages", said=f"{told}: {error}" if error else told, state="given_up", count=count, at=at)
