"""What a run waits for: a worker, a model's limit, a person, a session's open, another run. Read from the database
alone, so that it is known while Redis or the workers are away."""

from __future__ import annotations

import datetime as dt
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from sqlmodel import Session, col, func, select

from chordesk.models.answers import Frozen
from chordesk.models.errors import MarketError
from chordesk.models.market import plain_name
from chordesk.models.room import shortages
from chordesk.models.settings import REPLAYING, Settings
from chordesk.models.states import RUN_FINAL, ApprovalState, OrderState, RunState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Approval, Order
from chordesk.models.tables.runs import Run, Step, Sweep
from chordesk.models.tables.runtime import RuntimeApproval
from chordesk.models.text import NEW_YORK
from chordesk.tasks.engine import kinds, policy
from chordesk.tasks.engine.leases import NO_SWEEP_SECONDS
from chordesk.tasks.engine.steps import open_runs_below
from chordesk.tools.market.clock import exchange_hours

# A step that is due is taken up within less when a worker is free.
UNCLAIMED_SECONDS = 1.5
# Each worker sweeps every few seconds: where none has for so long, none runs.
# A step may be tried again so soon that nobody is told.
SHORTEST_SECONDS = 1.0
_PLACE = re.compile(r"; \d+ are before it$")  # of a step in line, which the others do not share
_RESTING = (OrderState.SUBMITTED, OrderState.PARTIALLY_FILLED)


class Wait(Frozen):
    """One thing that a run waits for. what: in words; count: how many steps, orders or requests of models wait for it;
    unit: which of these; until: when it is tried again, None where that is not known."""

    what: str
    count: int
    unit: Literal["step", "order", "request"] = "step"
    until: dt.datetime | None = None

    def __str__(self) -> str:
        until = f" until {self.until.astimezone(NEW_YORK):%H:%M:%S} New York time" if self.until is not None else ""
        return f"waits for {self.what}{until} ({self.count} {self.unit}{'' if self.count == 1 else 's'})"


def waits(session: Session, run: Run, settings: Settings | None = None) -> list[Wait]:
    """What most of the run waits for first; empty while all is in work. settings: of a desk on this machine."""
    now = utcnow()
    if run.state in RUN_FINAL:
        return [*_persons(session, run.id), *_resting(session, run, now)]
    if run.state != RunState.RUNNING:
        return []
    open_ones = col(Step.state).in_((StepState.READY, StepState.RUNNING))
    columns = select(Step.state, Step.kind, Step.error, Step.due_at)
    rows = session.exec(columns.where(Step.run_id == run.id, open_ones)).all()
    ready = [ReadyRow(*rest) for state, *rest in rows if state == StepState.READY]
    found = [*_persons(session, run.id), *_put_off(ready, now)]
    if not rows:
        return [*found, *_runs_below(session, run.id, settings)]
    if len(ready) == len(rows):
        found += _unclaimed(session, settings, [one for one in ready if policy.waits_for(one.error) is None], now)
    return found


class ReadyRow(NamedTuple):
    """What is asked of a step that may be worked on."""

    kind: str
    error: str | None
    due_at: dt.datetime


def _put_off(ready: Sequence[ReadyRow], now: dt.datetime) -> list[Wait]:
    """Return what the steps wait for that were given back, by reason."""
    by_reason: dict[str, list[dt.datetime]] = defaultdict(list)
    for _, error, due_at in ready:
        reason = policy.waits_for(error)
        if reason == policy.A_PERSON:
            continue  # what `_persons` says
        if reason is not None or (due_at - now).total_seconds() > SHORTEST_SECONDS:
            by_reason[_PLACE.sub("", reason or f"another attempt after {error}")].append(due_at)
    found = [_wait(reason, moments, now) for reason, moments in by_reason.items()]
    return sorted(found, key=lambda one: -one.count)


def _wait(reason: str, moments: Sequence[dt.datetime], now: dt.datetime) -> Wait:
    # Whoever waits for a worker waits until one is there, whenever it looks.
    until = max(moments)
    known = until > now and not reason.startswith(policy.A_WORKER)
    return Wait(what=reason, count=len(moments), until=until if known else None)


def _unclaimed(
    session: Session, settings: Settings | None, due: Sequence[ReadyRow], now: dt.datetime
) -> Iterator[Wait]:
    """Yield the queues with due steps that no worker has taken for a while, or what there is no room of."""
    late = [kind for kind, _, due_at in due if (now - due_at).total_seconds() > UNCLAIMED_SECONDS]
    if not late:
        return
    out = [one for one in shortages(settings) if one.out] if settings is not None else []
    if out:
        yield Wait(what="; ".join(f"room: {one.name}" for one in out), count=len(late))
        return
    swept = session.get_one(Sweep, 1).last_at
    if swept is None or (now - swept).total_seconds() > NO_SWEEP_SECONDS:
        yield Wait(what="a worker: none runs; start the desk with `desk up`, or `desk worker`", count=len(late))
        return
    queues: dict[str, int] = defaultdict(int)
    for kind in late:
        spec = kinds.find_step(kind)
        queues[f"of the queue {spec.queue}" if spec is not None else f"that knows the kind {kind}"] += 1
    for queue, count in queues.items():
        yield Wait(what=f"a free worker {queue}", count=count)


def _persons(session: Session, run_id: str) -> list[Wait]:
    pending = ApprovalState.PENDING.value
    orders = session.exec(
        select(func.count())
        .select_from(Approval)
        .join(Order, col(Order.id) == col(Approval.order_id))
        .where(Order.run_id == run_id, Approval.state == pending)
    ).one()
    requests = session.exec(
        select(func.count()).where(RuntimeApproval.run_id == run_id, RuntimeApproval.state == pending)
    ).one()
    whom = "a person to answer: see `desk approvals`"
    found = (Wait(what=whom, count=orders, unit="order"), Wait(what=whom, count=requests, unit="request"))
    return [one for one in found if one.count]


def _resting(session: Session, run: Run, now: dt.datetime) -> Iterator[Wait]:
    if plain_name(run.market) in REPLAYING:
        return
    count = session.exec(select(func.count()).where(Order.run_id == run.id, col(Order.state).in_(_RESTING))).one()
    if not count:
        return
    try:
        hours = exchange_hours()
        if not hours.is_open(now):
            yield Wait(what="the session's open", count=count, unit="order", until=hours.next_open(now))
    except MarketError:  # the calendar ends before
        return


def _runs_below(session: Session, run_id: str, settings: Settings | None) -> Iterator[Wait]:
    going = []
    for inner in open_runs_below(session, [run_id]):
        if below := waits(session, session.get_one(Run, inner), settings):
            yield Wait(what=f"run {inner}" + "".join(f", which {one}" for one in below), count=1)
        else:
            going.append(inner)
    if going:
        of_more = f" and {len(going) - 1} more" if len(going) > 1 else ""
        yield Wait(what=f"run {going[0]}{of_more}", count=len(going))
