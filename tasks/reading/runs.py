"""The view of a run for people and scripts: read from the database once, shown as text or JSON."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

from sqlmodel import Session, col, func, select

from chordesk.models import features
from chordesk.models.answers import Frozen
from chordesk.models.errors import MarketError, NothingYet
from chordesk.models.exchanges import HOME, clock_of, zone_of
from chordesk.models.market import plain_name
from chordesk.models.money import DOLLAR
from chordesk.models.settings import REPLAYING, Settings
from chordesk.models.settings.running_desk import (
    Standing,
    backtest_account,
    is_backtest,
    research_account,
    standing_of_run,
)
from chordesk.models.shortages import shortages
from chordesk.models.states import (
    RUN_FINAL,
    STEP_FINAL,
    ApprovalState,
    OrderState,
    Phase,
    RunKind,
    RunState,
    StepKind,
    StepState,
)
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Approval, Order, Preview
from chordesk.models.tables.runs import (
    Attempt,
    BacktestSession,
    Candidate,
    Decision,
    Run,
    Step,
    Sweep,
    ToolCall,
    Turn,
    Verdict,
    exchange_of_run,
    research_run,
)
from chordesk.models.tables.runtime import RuntimeApproval, RuntimeTurn
from chordesk.models.text import SHORT_ID
from chordesk.tasks import life
from chordesk.tasks.engine import kinds, owners, policy
from chordesk.tasks.engine.budgets import runs_of_backtest, was_run
from chordesk.tasks.engine.kinds import WORKER_QUEUES
from chordesk.tasks.engine.leases import NO_SWEEP_SECONDS
from chordesk.tasks.engine.owners import PLAYER
from chordesk.tasks.engine.steps import open_runs_below
from chordesk.tasks.reading import run_parts
from chordesk.tasks.reading.accounts import PortfolioResearchResult, portfolio_research
from chordesk.tasks.reading.chain import judged
from chordesk.tasks.reading.report_view import AnalysisRow, analyses
from chordesk.tasks.reading.run_list import opened_by_backtest
from chordesk.tools.ledger import currency_of_account
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.orders.stops import preview_text
from chordesk.tools.scoring.verdict_calibration import lenses_of, odds_of_run


def backtest_rows(session: Session, backtest_id: str) -> list[BacktestSession]:
    rows = select(BacktestSession).where(BacktestSession.backtest_id == backtest_id)
    return list(session.exec(rows.order_by(col(BacktestSession.day))).all())


OFF = "blocked"  # state of a session whose orders a halt denied


def blocked_rows(rows: Sequence[BacktestSession]) -> str | None:
    """Return why a backtest's sessions say nothing of its desk: trading was off, or every single order was denied. None
    for any other backtest."""
    if (off := next((row.reason for row in rows if row.state == OFF), None)) is not None:
        return off
    orders = sum((Counter(row.orders) for row in rows), Counter[str]())
    if not orders or set(orders) != {OrderState.DENIED.value}:
        return None
    codes = sum((Counter(row.denials) for row in rows), Counter[str]())
    listed = ", ".join(f"{code} {count}" for code, count in codes.most_common())
    return f"every order was denied: {listed}"


def blocked(session: Session, backtest_id: str, rows: Sequence[BacktestSession]) -> str | None:
    """Return why a backtest is neither a result nor a trial, None for any other. rows: its sessions."""
    own = select(Run).where(Run.kind == RunKind.BACKTEST, Run.account == backtest_account(backtest_id))
    last = session.exec(own.order_by(col(Run.created_at).desc())).first()
    return blocked_summary(last) or blocked_rows(rows) if last is not None else blocked_rows(rows)


def blocked_summary(run: Run) -> str | None:
    return (run.summary.get("backtest") or {}).get("blocked")


ENTRY = frozenset({"open", "add"})
EXIT = frozenset({"reduce", "close"})
NO_VERDICT = "no verdict"
_OF_A_ROLE = (StepKind.REPORT, StepKind.GRAPH)


class CandidateRow(Frozen):
    """One line of the closing table. confidence: of the screeners, None when none named it; verdict_probability: that
    the symbol beats the median, None until a calibration has found it; why: the rule that gave the verdict; tools:
    calls by name, of the candidate's reports; tokens: theirs, None where the provider gave no figure."""

    symbol: str
    origin: str
    screeners: list[str]
    confidence: str | None
    verdict: str | None
    verdict_confidence: str | None
    verdict_probability: float | None = None
    why: str | None = None
    missing: list[str]
    tools: dict[str, int]
    tokens: int | None


class ActionRow(Frozen):
    """One recommended action and its order. `suppressed`: why it is not an order; `protection`: the protective
    order that its fill gets, as previewed."""

    symbol: str
    action: str
    side: str | None
    quantity: float | None
    notional: float | None
    contract: str | None
    legs: list[dict[str, Any]] | None = None
    confidence: str
    reasoning: str
    group: str
    order_id: str | None
    state: str | None
    suppressed: str | None
    payload_hash: str | None
    protection: str | None = None


class PositionRow(Frozen):
    """Shares held, and their average cost."""

    symbol: str
    quantity: float
    average_cost: float
    currency: str | None = None  # of the average cost, None for the account's


class Portfolio(Frozen):
    """The account at the end of the run, from the ledger; not valued at a price."""

    cash: float
    positions: list[PositionRow]
    currency: str = DOLLAR  # of the account


class Progress(Frozen):
    """The progress of a run. Steps by kind as (final, all); candidates by phase. `begun`: a worker has started it.
    phases: how many of the turns that take long wait for a first token, reason, write or wait for a tool. waits: what
    the run waits for."""

    run_id: str
    kind: str
    state: str
    begun: bool
    model: str
    steps: dict[str, tuple[int, int]]
    candidates: dict[str, int]
    turns_in_flight: int
    phases: dict[str, int] = {}
    waits: list[Wait] = []
    turns: int
    tokens: int
    seconds: float
    final: bool


class RunView(Frozen):
    """A whole run. A trade run has its source run's candidates, and `judged_by` is that run's model; `settings`: at its
    opening, None for a run of an older version; `portfolio`: if orders were filled. `portfolio_research`, `analyses`,
    `backtest` and `graphs`: for runs of these kinds. role_models: the roles with another model than `model`.

    Features add parts of their own."""

    run_id: str
    kind: str
    state: str
    source_run: str | None
    judged_by: str
    account: str
    model: str
    role_models: dict[str, str]
    market: str
    market_now: dt.datetime
    settings: dict[str, Any] | None
    standing: Standing
    created_at: dt.datetime
    finished_at: dt.datetime | None
    notes: list[str]
    summary: dict[str, Any]
    candidates: list[CandidateRow]
    decision: str | None
    decided_by: str | None
    reasoning: str | None
    actions: list[ActionRow]
    portfolio: Portfolio | None
    portfolio_research: PortfolioResearchResult | None
    analyses: list[AnalysisRow]


def newest_run(session: Session, kind: str | None = None) -> Run:
    """Return the newest run, of a kind or that no other run opened and lists have; never one of a backtest's
    sessions."""
    newest = (col(Run.created_at).desc(), col(Run.id).desc())
    told = [col(Run.parent_run_id).is_(None), col(Run.kind).not_in(features.places("asides"))]
    own = ([Run.kind == kind] if kind is not None else told) + [~opened_by_backtest()]
    found = session.exec(select(Run).where(*own).order_by(*newest).limit(1)).first()
    if found is None:
        of = f" of the kind {kind}" if kind is not None else ""
        raise NothingYet(f"there is no run{of} yet", remedy=f"start one with: desk {kind or 'screen'}")
    return found


def progress(session: Session, run_id: str, settings: Settings | None = None) -> Progress:
    """Cheap enough for a view that is drawn twice a second. settings: as of `waits`."""
    run = session.get_one(Run, run_id)
    grouped = session.exec(
        select(Step.kind, Step.state, func.count())
        .where(Step.run_id == run_id)
        .group_by(col(Step.kind), col(Step.state))
    ).all()
    steps: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for kind, state, count in grouped:
        steps[kind][1] += count
        steps[kind][0] += count if state in STEP_FINAL else 0
    in_flight = _turns_in_flight(session, run_id) if run.state not in RUN_FINAL else 0
    taken_up = select(Step.id).where(Step.run_id == run_id, col(Step.started_at).is_not(None)).limit(1)
    turns, tokens = session.exec(
        select(func.count(), func.coalesce(func.sum(Turn.total_tokens), 0)).where(
            col(Turn.run_id).in_(runs_counted(run)), was_run()
        )
    ).one()
    return Progress.of(
        run,
        run_id=run.id,
        begun=session.exec(taken_up).first() is not None,
        model=run.model,
        steps={kind: (done, total) for kind, (done, total) in steps.items()},
        candidates=_phases(session, run_id) if run.kind != RunKind.GRAPH else {},
        turns_in_flight=in_flight,
        phases=turn_phases(session, [run_id]) if in_flight else {},
        waits=waits(session, run, settings),
        turns=turns,
        tokens=tokens,
        seconds=((run.finished_at or utcnow()) - run.created_at).total_seconds(),
        final=run.state in RUN_FINAL,
    )


def _turns_in_flight(session: Session, run_id: str) -> int:
    takes_turns = col(Step.kind).in_(kinds.kinds_of(lambda spec: spec.turn))  # they load the workflows
    running = select(func.count()).where(Step.run_id == run_id, Step.state == StepState.RUNNING, takes_turns)
    return session.exec(running).one()


def turn_phases(session: Session, runs: Any) -> dict[str, int]:
    slow = (col(RuntimeTurn.run_id).in_(runs), col(RuntimeTurn.ended_at).is_(None), col(RuntimeTurn.phase).is_not(None))
    counted = session.exec(select(RuntimeTurn.phase, func.count()).where(*slow).group_by(col(RuntimeTurn.phase))).all()
    return {str(phase): count for phase, count in sorted(counted)}


def runs_counted(run: Run) -> Any:
    """Return the runs of which a run's turns and tokens are: its own, and of a backtest those of its days."""
    return runs_of_backtest(run.account) if run.kind == RunKind.BACKTEST else [run.id]


def _phases(session: Session, run_id: str) -> dict[str, int]:
    """Counts by phase: quick report, research, analyst, rating, or no verdict because the conclusion failed."""
    asked = select(Step.subject, Step.role).where(Step.run_id == run_id, col(Step.kind).in_(_OF_A_ROLE))
    ends = (StepKind.CONCLUDE, StepKind.SYNTHESIZE)
    failed = select(Step.subject).where(Step.run_id == run_id, col(Step.kind).in_(ends), Step.state == StepState.FAILED)
    roles: dict[str, set[str]] = defaultdict(set)
    for symbol, role in session.exec(asked).all():
        roles[symbol].add(role)
    lost = set(session.exec(failed).all())
    rated = session.exec(
        select(Candidate.symbol, Verdict.rating)
        .join(Verdict, col(Verdict.candidate_id) == col(Candidate.id), isouter=True)
        .where(Candidate.run_id == run_id)
    ).all()
    ended = Counter(rating or NO_VERDICT for symbol, rating in rated if rating is not None or symbol in lost)
    research = Counter(_phase(roles[symbol]) for symbol, rating in rated if rating is None and symbol not in lost)
    first = _in_order(research) if research else []
    return {str(name): research[name] for name in first} | {str(name): ended[name] for name in sorted(ended)}


def _in_order(phases: Container[str]) -> list[str]:
    from chordesk.agents.roles import validators  # they load every tool

    return [name for name in (*validators(), Phase.RESEARCH) if name in phases]


def _phase(roles: set[str]) -> str:
    """Return the phase of a candidate from the roles that were asked: the last of a chain of rejecting ones, by name,
    or the research that follows the quick report."""
    from chordesk.agents.roles import rejecting, validators

    if not roles <= set(rejecting()):
        return Phase.RESEARCH
    return next((role for role in reversed(validators()) if role in roles), Phase.QUICK)


@cache
def view_type() -> type[RunView]:
    return run_parts.widened(RunView, "run")


def view(session: Session, run: Run) -> RunView:
    decision = session.exec(select(Decision).where(Decision.run_id == run.id)).one_or_none()
    source, ledger, made = run.params.get("source_run"), run.summary.get("portfolio"), view_type()
    return made.of(
        run,
        run_id=run.id,
        source_run=source,
        judged_by=session.get_one(Run, source).model if source else run.model,
        model=run.model,
        role_models=_role_models(session, run),
        standing=standing_of_run(run.settings, run.account, run.model, run.market, run.market_now),
        candidates=candidates(session, run),
        decision=decision.status if decision else None,
        decided_by=decision.author if decision else None,
        reasoning=decision.reasoning if decision else None,
        actions=_actions(session, decision) if decision else [],
        portfolio=Portfolio.model_validate(ledger) if ledger else None,
        portfolio_research=portfolio_research(session, run),
        analyses=analyses(session, run),
        notes=[*run.notes, *_absent(run)],
        **run_parts.read(session, run, made, "run"),
    )


def _absent(run: Run) -> Iterator[str]:
    """Yield why the view lacks what the feature of its kind shows, and the remedy."""
    if run.kind in set(RunKind) and features.switched_off("kinds", run.kind) is None:
        return  # the desk's own, in force: to ask `kinds` would load all workflows
    if (lack := kinds.missing(run.kind)) is not None:
        yield f"a run of the kind {run.kind}, {lack.reason}: to see what it did, {lack.remedy}"


def _role_models(session: Session, run: Run) -> dict[str, str]:
    pairs = select(Turn.role, Turn.model).where(Turn.run_id == run.id, Turn.model != run.model).distinct()
    found = session.exec(pairs).all()
    return dict(sorted(found))


def candidates(session: Session, run: Run) -> list[CandidateRow]:
    """By rank; for a trade run those of its source. A run of graphs has signals in their place."""
    if run.kind == RunKind.GRAPH:
        return []
    run_id = research_run(run)
    rows = session.exec(select(Candidate).where(Candidate.run_id == run_id).order_by(col(Candidate.rank))).all()
    ruled = judged(session, run_id)
    verdicts = {symbol: verdict for symbol, (verdict, _) in ruled.items()}
    lenses = lenses_of(session, {run_id})
    tools, tokens = _costs(session, run_id)
    odds = odds_of_run(session, run_id)
    return [
        CandidateRow.of(
            row,
            screeners=sorted(lenses.get((run_id, row.symbol), ())),
            verdict=verdicts[row.symbol].rating if row.symbol in verdicts else None,
            verdict_confidence=verdicts[row.symbol].confidence if row.symbol in verdicts else None,
            verdict_probability=odds(verdicts[row.symbol]) if row.symbol in verdicts else None,
            why=ruled[row.symbol][1] if row.symbol in verdicts else None,
            missing=verdicts[row.symbol].missing if row.symbol in verdicts else [],
            tools=dict(sorted(tools[row.symbol].items())),
            tokens=tokens.get(row.symbol, 0),
        )
        for row in rows
    ]


def _costs(session: Session, run_id: str) -> tuple[dict[str, Counter[str]], dict[str, int | None]]:
    """Return tool calls by name, and tokens, by candidate, over the steps of its roles and all their attempts."""
    of_report = (Step.run_id == run_id, col(Step.kind).in_(_OF_A_ROLE))
    joined = (Step, col(Turn.step_id) == col(Step.id))
    calls = select(Turn.subject, ToolCall.tool).join(*joined).join(ToolCall, col(ToolCall.turn_id) == col(Turn.id))
    spent = select(Turn.subject, func.sum(Turn.total_tokens)).join(*joined)
    tools: dict[str, Counter[str]] = defaultdict(Counter)
    for symbol, tool in session.exec(calls.where(*of_report)).all():
        tools[symbol][tool] += 1
    return tools, dict(session.exec(spent.where(*of_report).group_by(col(Turn.subject))).all())


def _actions(session: Session, decision: Decision) -> list[ActionRow]:
    orders = {o.ordinal: o for o in session.exec(select(Order).where(Order.decision_id == decision.id)).all()}
    rows = session.exec(
        select(Preview).join(Order, col(Order.id) == col(Preview.order_id)).where(Order.decision_id == decision.id)
    ).all()
    previews = {row.order_id: row for row in rows}
    own = next((currency_of_account(session, order.account) for order in orders.values()), DOLLAR)
    return [_action(item, orders.get(ordinal), previews, own) for ordinal, item in enumerate(decision.actions)]


def _action(item: dict[str, Any], order: Order | None, previews: dict[str, Preview], own: str) -> ActionRow:
    """own: currency of the account."""
    kind = item["action"]
    preview = previews.get(order.id) if order else None
    return ActionRow(
        symbol=item["symbol"],
        action=kind,
        side=item["side"],
        quantity=order.quantity if order else item["quantity"],
        notional=order.notional if order else item["notional"],
        contract=order.contract if order else item.get("contract"),
        legs=order.legs if order else None,
        confidence=item["confidence"],
        reasoning=item["reasoning"],
        group="entry" if kind in ENTRY else "exit" if kind in EXIT else "monitor",
        order_id=order.id if order else None,
        state=order.state if order else None,
        suppressed=order.denial_reason if order and order.denial_code else None,
        payload_hash=preview.payload_hash if preview else None,
        protection=preview_text(preview.payload, preview.currency or own) if preview else None,
    )


# A step that is due is taken up within less when a worker is free.
UNCLAIMED_SECONDS = 1.5
# Each worker sweeps every few seconds: where none has for so long, none runs.
# A step may be tried again so soon that nobody is told.
SHORTEST_SECONDS = 1.0
_PLACE = re.compile(r"; \d+ are before it$")  # of a step in line, which the others do not share
_RESTING = (OrderState.SUBMITTED, OrderState.PARTIALLY_FILLED)


class Wait(Frozen):
    """One thing that a run waits for. what: in words; count: how many steps, orders or requests of models wait for it;
    unit: which of these; until: when it is tried again, None where that is not known;
    exchange: whose clock that is shown by."""

    what: str
    count: int
    unit: Literal["step", "order", "request"] = "step"
    until: dt.datetime | None = None
    exchange: str = HOME

    def __str__(self) -> str:
        until = (
            f" until {_until(self.until, zone_of(self.exchange))} {clock_of(self.exchange)}"
            if self.until is not None
            else ""
        )
        return f"waits for {self.what}{until} ({self.count} {self.unit}{'' if self.count == 1 else 's'})"


def _until(at: dt.datetime, zone: dt.tzinfo) -> str:
    """Return a time of a zone, with its date where that is not today's."""
    there = at.astimezone(zone)
    return f"{there:%H:%M:%S}" if there.date() == utcnow().astimezone(zone).date() else f"{there:%a %Y-%m-%d %H:%M}"


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
    if is_backtest(run.account) and _is_played(session, run.account, now):
        return found  # its steps, and those of its sessions' runs, are the player's and no worker's
    if not rows:
        return [*found, *_runs_below(session, run.id, settings)]
    due = [one for one in ready if policy.waits_for(one.error) is None]
    late = [one.kind for one in due if (now - one.due_at).total_seconds() > UNCLAIMED_SECONDS]
    found += _of_no_feature(run.id, late)
    late = [kind for kind in late if kinds.missing(kind) is None]
    in_work = len(rows) - len(ready)
    if late or in_work:  # what is in work may not be written, or be of a worker that was killed
        if (lacking := _shortage(settings) or _no_worker(session, settings, now)) is not None:
            found.append(Wait(what=lacking, count=len(late) + in_work))
        elif not in_work:
            found += _unclaimed(late)
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


def _shortage(settings: Settings | None) -> str | None:
    """Return what there is no room of on this machine."""
    out = [one for one in shortages(settings) if one.out] if settings is not None else []
    return "; ".join(f"room: {one.name}" for one in out) or None


def _no_worker(session: Session, settings: Settings | None, now: dt.datetime) -> str | None:
    swept = session.get_one(Sweep, 1).last_at
    if swept is not None and (now - swept).total_seconds() <= NO_SWEEP_SECONDS:
        return None
    lives = [one for one in life.of_desk(settings) if one.role in WORKER_QUEUES] if settings is not None else []
    if not lives:
        return "a worker: none runs; start the desk with `desk up`, or `desk worker`"
    named = ", ".join(f"{one.name} {one.state.value}" for one in lives)
    return f"a worker: none gets on ({named}); `desk status` has the reason"


def _unclaimed(late: Sequence[str]) -> Iterator[Wait]:
    """Yield the queues with due steps, of these kinds, that no worker has taken for a while."""
    queues: dict[str, int] = defaultdict(int)
    for kind in late:
        if (spec := kinds.find_step(kind)) is not None:
            queues[spec.queue] += 1
    for queue, count in queues.items():
        yield Wait(what=f"a free worker of the queue {queue}", count=count)


def _of_no_feature(run_id: str, late: Sequence[str]) -> Iterator[Wait]:
    """Yield the kinds of due steps that no worker with the features of this process does."""
    for kind, count in Counter(late).items():
        if (lack := kinds.missing(kind)) is not None:
            yield Wait(what=f"{kind}, {lack.reason}: {lack.remedy}, or `desk stop {run_id[:SHORT_ID]}`", count=count)


PLAYED_SECONDS = 30.0  # since a step of it ended: one of a session takes less than a second


def _is_played(session: Session, account: str, now: dt.datetime) -> bool:
    """Return whether a command plays the sessions of a backtest's account in its own process now."""
    walk = account.removesuffix(research_account(""))
    ended = (
        select(Attempt.owner)
        .join(Step, col(Step.id) == col(Attempt.step_id))
        .join(Run, col(Run.id) == col(Step.run_id))
        .where(col(Run.account).in_((walk, research_account(walk))), col(Attempt.owner).startswith(f"{PLAYER}@"))
        .where(col(Attempt.ended_at) > now - dt.timedelta(seconds=PLAYED_SECONDS))
    )
    owner = session.exec(ended.order_by(col(Attempt.ended_at).desc()).limit(1)).first()
    return owner is not None and owners.standing(owner) is not owners.Standing.DEAD


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
        own = exchange_of_run(run)
        hours = exchange_hours(own)
        if not hours.is_open(now):
            yield Wait(what="the session's open", count=count, unit="order", until=hours.next_open(now), exchange=own)
    except MarketError:  # the calendar ends before
        return


def _runs_below(session: Session, run_id: str, settings: Settings | None) -> Iterator[Wait]:
    """Yield what the runs below wait for, those that wait for the same together; what is between waits for them."""
    going, found = list[str](), defaultdict[tuple[str, Any], list[tuple[str, Wait]]](list)
    for inner in open_runs_below(session, [run_id]):
        below = waits(session, session.get_one(Run, inner), settings)
        for one in below:
            if not one.what.startswith(_A_RUN):
                found[one.what, one.unit].append((inner, one))
        if not below:
            going.append(inner)
    for (what, unit), waiting in found.items():
        runs = list(dict.fromkeys(inner for inner, _ in waiting))
        moments = [one.until for _, one in waiting if one.until is not None]
        wait = "waits" if len(runs) == 1 else "wait"
        yield Wait(
            what=f"{_named(runs)}, which {wait} for {what}",
            count=sum(one.count for _, one in waiting),
            unit=unit,
            until=max(moments, default=None),
        )
    if going:
        yield Wait(what=_named(going), count=len(going))


_A_RUN = "run "


def _named(runs: Sequence[str]) -> str:
    return f"{_A_RUN}{runs[0]}" + (f" and {len(runs) - 1} more" if len(runs) > 1 else "")
