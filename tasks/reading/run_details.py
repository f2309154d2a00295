"""The details of a run: its complete view, pictures, attempts, conversations, its written report and its timeline."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import computed_field, model_validator
from sqlmodel import Session, col, func, select

from chordesk.models.answers import Frozen
from chordesk.models.database.blobs import path_in_home
from chordesk.models.exchanges import zone_of
from chordesk.models.groups import by_key
from chordesk.models.money import DOLLAR
from chordesk.models.settings import Settings
from chordesk.models.states import RUN_LIVE, AttemptEnd, OrderState, RunKind, RunState, StepState
from chordesk.models.tables.board import Episode, EpisodeQuestion
from chordesk.models.tables.columns import Row, utcnow
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import (
    Artifact,
    Attempt,
    BacktestSession,
    Candidate,
    Run,
    RunDocumentCopy,
    Step,
    ToolCall,
    Turn,
    Verdict,
    exchange_of_run,
    research_run,
)
from chordesk.models.tables.runtime import RuntimeConversation
from chordesk.tasks.engine import kinds
from chordesk.tasks.engine.budgets import Cost, cost_of
from chordesk.tasks.reading import run_parts
from chordesk.tasks.reading.chain import CandidateTable, Funnel, candidate_table, funnel
from chordesk.tasks.reading.report_view import GroundedReport, grounded_reports
from chordesk.tasks.reading.run_list import RunRow, opened_by_backtest
from chordesk.tasks.reading.runs import Progress, RunView, blocked, progress, view
from chordesk.tools import rogue_calls
from chordesk.tools.ledger import currency_of_account
from chordesk.tools.rogue_calls import RogueRow

_DID = {
    RunKind.SCREEN: "screened {symbols}",
    RunKind.RESEARCH: "researched {symbols}",
    RunKind.ANALYZE: "analysed {symbols}",
    RunKind.TRADE: "decided on a run's research",
    RunKind.EPISODE: "played an episode",
    RunKind.BACKTEST: "played {days}",
    RunKind.GRAPH: "ran {graphs}",
    RunKind.CLOSE: "closed a position",
    RunKind.FLATTEN: "closed the positions",
    RunKind.PROTECT: "protected positions",
}
_ORDERS = {OrderState.APPROVAL_PENDING: "wait for you", OrderState.PARTIALLY_FILLED: "filled in part"}
_ENDS = {RunState.FAILED: "failed", RunState.PARTIAL: "not whole", RunState.STOPPED: "stopped by a person"}


def outcome(session: Session, run: Run) -> str:
    """Return what a run did or does, such as "Screened 524 names at 15:55 on 2010-08-12; 10 candidates: 8 BUY, 2 HOLD;
    3 orders filled, 5 wait for you"."""
    days = _days(session, run) if run.kind == RunKind.BACKTEST else ""
    symbols = _many(len(run.params.get("symbols") or ()), "name")
    graphs = _many(len(run.params.get("inputs") or ()), "graph")
    counts = {"symbols": symbols, "days": days, "graphs": graphs}
    did = _DID.get(run.kind, run.kind).format(**counts)  # type: ignore[call-overload]
    at = "" if days else f"{run.market_now.astimezone(zone_of(exchange_of_run(run))):%H:%M on %Y-%m-%d}"
    under_way = f" ({run.state})" if run.state in RUN_LIVE else ""
    head = f"{did[:1].upper()}{did[1:]}{f' at {at}' if at else ''}{under_way}"
    parts = [head, _researched(session, run), _ordered(session, run)]
    parts += [of(session, run) for kind, of in _OWN.items() if run.kind == kind]
    if end := _ENDS.get(run.state):  # type: ignore[call-overload]
        parts.append(f"{end}: {run.notes[0]}" if run.notes else end)
    return "; ".join(filter(None, parts))


def _many(count: int, what: str) -> str:
    return f"one {what}" if count == 1 else f"{count or 'no'} {what}s"


def _days(session: Session, run: Run) -> str:
    """Return a backtest's sessions, and what they have come to so far."""
    from chordesk.models.looks import written

    origin = session.get_one(Run, run.params.get("backtest", run.id))  # that it goes on with
    days = origin.params.get("days") or ()
    played = select(BacktestSession).where(BacktestSession.backtest_id == origin.id).order_by(col(BacktestSession.day))
    rows = session.exec(played).all()
    equity = [row.equity for row in rows]
    if not days:
        return "no session"
    told = f"{'' if len(equity) == len(days) else f'{len(equity)} of '}{len(days)} sessions, {days[0]} to {days[-1]}"
    if (off := blocked(session, origin.id, rows)) is not None:
        return f"{told}: blocked, {off}"
    returns = (run.summary.get("backtest") or {}).get("returns")
    if returns and returns["desk"] is not None:
        held = f", against {written('change', returns['held'])} bought and held" if returns["held"] is not None else ""
        return f"{told}: {written('change', returns['desk'])}{held}"
    if not equity or equity[-1] is None:
        return told
    base = currency_of_account(session, run.account)
    sign = "$" if base == DOLLAR else f"{base} "
    return f"{told}: {sign}{equity[-1]:,.2f} so far"


def _forecast(session: Session, run: Run) -> str:
    """Return how many questions an episode had, and to which of them its voices moved furthest from the baseline."""
    from chordesk.models.looks import written

    count = session.exec(select(func.count()).where(EpisodeQuestion.run_id == run.id)).one()
    told = _many(count, "question")
    episode = session.get(Episode, run.id)
    rows = [row for row in (episode.summary.get("questions") or () if episode else ()) if row.get("aggregate")]
    if not rows:
        return told
    row = max(rows, key=lambda row: abs(row["aggregate"]["probability"] - row["baseline"]))
    odds = (written("probability", one) for one in (row["aggregate"]["probability"], row["baseline"]))
    return f"{told}: at most {' against '.join(odds)}, of “{row['text']}”"


def _nodes(session: Session, run: Run) -> str:
    """Return the nodes of a run's graphs that asked a model, in their order."""
    begun = select(Turn.role).where(Turn.run_id == run.id).group_by(Turn.role)
    roles = session.exec(begun.order_by(func.min(Turn.started_at))).all()
    return f"{', '.join(roles)} asked a model" if roles else ""


_OWN = {RunKind.EPISODE: _forecast, RunKind.GRAPH: _nodes}


def _researched(session: Session, run: Run) -> str:
    count = session.exec(select(func.count()).where(col(Candidate.run_id) == research_run(run))).one()
    if not count:
        return "no candidate" if run.kind == RunKind.SCREEN and run.state not in RUN_LIVE else ""
    ratings = _tally(session, Verdict.rating, col(Verdict.run_id) == research_run(run))
    said = f"{count} candidates" if count != 1 else "one candidate"
    return f"{said}: {', '.join(f'{n} {rating}' for rating, n in ratings.items())}" if ratings else said


def _ordered(session: Session, run: Run) -> str:
    states = _tally(session, Order.state, col(Order.run_id) == run.id)
    told = [f"{n} {_ORDERS.get(state, state.replace('_', ' '))}" for state, n in states.items()]  # type: ignore[call-overload]
    return f"of {sum(states.values())} orders {', '.join(told)}" if told else ""


def _tally(session: Session, column: Any, where: Any) -> dict[str, int]:
    rows = session.execute(select(column, func.count()).where(where).group_by(column)).all()
    return dict(sorted(rows, key=lambda row: (-row[1], row[0])))


class ListedRun(RunRow):
    """A row of a list with what the run came to, in words. children: runs that it opened for its sessions."""

    said: str
    children: int


def listed(session: Session, rows: Sequence[RunRow]) -> list[ListedRun]:
    ids = [row.run.id for row in rows]
    opened = select(Run.parent_run_id, func.count()).where(col(Run.parent_run_id).in_(ids), opened_by_backtest())
    children = dict(session.exec(opened.group_by(col(Run.parent_run_id))).all())
    return [
        ListedRun.of(row, said=outcome(session, session.get_one(Run, row.run.id)), children=children.get(row.run.id, 0))
        for row in rows
    ]


class ArtifactRow(Frozen):
    """One picture. path: of its file, relative to the data folder of the worker that ran the turn; size in bytes."""

    id: str
    kind: str
    digest: str
    size: int
    path: str
    tool: str
    role: str
    subject: str
    turn_id: str


def artifacts(session: Session, run_id: str) -> list[ArtifactRow]:
    rows = session.exec(
        select(Artifact, Turn, ToolCall.tool)
        .join(Turn, col(Turn.id) == col(Artifact.turn_id))
        .join(ToolCall, col(ToolCall.id) == col(Artifact.call_id))
        .where(Artifact.run_id == run_id)
        .order_by(col(Artifact.created_at), col(Artifact.id))
    ).all()
    return [
        ArtifactRow.of(artifact, turn, id=artifact.id, path=path_in_home(artifact.digest, artifact.kind), tool=tool)
        for artifact, turn, tool in rows
    ]


def conversations(session: Session, run_id: str) -> list[RuntimeConversation]:
    rows = session.exec(
        select(RuntimeConversation)
        .where(RuntimeConversation.run_id == run_id)
        .order_by(col(RuntimeConversation.opened_at), col(RuntimeConversation.id))
    ).all()
    return list(rows)


def written_document(session: Session, run_id: str) -> RunDocumentCopy | None:
    """Return the state of a run's written report; None where nothing was to be written, or it was not begun."""
    return session.get(RunDocumentCopy, run_id)


class RunDetail(RunView):
    """The view of a run, what it did as one sentence, its progress and cost so far, its steps with each attempt, their
    conversations and pictures, where the figures of its reports came from, its rogue calls, and where its own
    report was written, null where it is written nowhere. Features add parts of their own."""

    said: str
    progress: Progress
    cost: Cost
    steps: list[TimelineStep]
    conversations: list[Row[RuntimeConversation]]
    artifacts: list[ArtifactRow]
    grounded: list[GroundedReport]
    rogue: list[RogueRow]
    document: Row[RunDocumentCopy] | None


@cache
def detail_type() -> type[RunDetail]:
    return run_parts.widened(RunDetail, "run", "detail")


def detail(session: Session, settings: Settings, run: Run) -> RunDetail:
    """settings: of this process; their prices count."""
    whole, made = view(session, run), detail_type()
    return made(
        **dict(whole),
        said=outcome(session, run),
        progress=progress(session, run.id, settings),
        cost=cost_of(session, settings, run.id),
        steps=steps_of(session, run),
        conversations=conversations(session, run.id),
        artifacts=artifacts(session, run.id),
        grounded=grounded_reports(session, run),
        rogue=rogue_calls.of_run(session, run.id),
        document=written_document(session, run.id),
        **run_parts.read(session, run, made, "detail"),
    )


RUNNING = "running"


class TimelineTurn(Frozen):
    """A turn that has ended, without its text. turn_id: the row's."""

    turn_id: str
    thread_id: str | None
    outcome: str
    tokens: int | None
    started_at: dt.datetime
    finished_at: dt.datetime


class TimelineAttempt(Frozen):
    """An attempt at a step. worker: the process that made it; outcome: how it ended, or `running`; waited: seconds from
    the moment when it could have begun, null where that is not known; taken_over: the one before it was lost with its
    worker."""

    attempt: int
    worker: str
    started_at: dt.datetime
    ended_at: dt.datetime | None
    outcome: str
    reason: str | None
    waited: float | None
    taken_over: bool
    turns: list[TimelineTurn]

    @property
    def went_well(self) -> bool:
        """Return whether the first attempt runs, succeeded, or was stopped on purpose: a stop is not a failure."""
        return self.outcome in (AttemptEnd.DONE, AttemptEnd.STOPPED, RUNNING) and self.attempt == 1


class TimelineStep(Frozen):
    """A step. title: of its kind in a run's progress, empty without one; turn: whether its kind takes a turn."""

    step: Row[Step]
    attempts: list[TimelineAttempt]

    @model_validator(mode="before")
    @classmethod
    def _as_given(cls, given: Any) -> Any:
        computed = cls.model_computed_fields
        return {key: value for key, value in given.items() if key not in computed} if isinstance(given, dict) else given

    @computed_field  # type: ignore[prop-decorator]
    @property
    def title(self) -> str:
        return spec.title if (spec := kinds.find_step(self.step.kind)) is not None else ""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def turn(self) -> bool:
        return (spec := kinds.find_step(self.step.kind)) is not None and spec.turn


class Timeline(Frozen):
    """A run's steps in the order in which they were added. now: of the database's reader, where open bars end. workers:
    in the order in which they first took a step. expected: kinds of steps that the last whole run of this kind went
    through, and this one has none of yet; empty when it has ended."""

    run_id: str
    kind: str
    state: str
    created_at: dt.datetime
    finished_at: dt.datetime | None
    now: dt.datetime
    workers: list[str]
    steps: list[TimelineStep]
    expected: list[str]


def timeline(session: Session, run: Run) -> Timeline:
    rows = steps_of(session, run)
    begun = sorted((one for row in rows for one in row.attempts), key=lambda one: one.started_at)
    return Timeline.of(
        run,
        run_id=run.id,
        now=utcnow(),
        workers=list(dict.fromkeys(one.worker for one in begun if one.worker)),
        steps=rows,
        expected=_expected(session, run, {row.step.kind for row in rows}),
    )


def steps_of(session: Session, run: Run) -> list[TimelineStep]:
    steps = session.exec(select(Step).where(Step.run_id == run.id).order_by(col(Step.created_at), col(Step.id))).all()
    ended = _ended(session, run.id)
    turns = _turns(session, run.id)
    parents = {step.parent_id for step in steps}
    return [
        TimelineStep(step=step, attempts=_attempts(step, ended[step.id], turns, joins=step.id in parents))
        for step in steps
    ]


def _ended(session: Session, run_id: str) -> dict[str, list[Attempt]]:
    rows = session.exec(
        select(Attempt)
        .join(Step, col(Step.id) == col(Attempt.step_id))
        .where(Step.run_id == run_id)
        .order_by(col(Attempt.attempt), col(Attempt.started_at))
    ).all()
    return by_key((row.step_id, row) for row in rows)


def _turns(session: Session, run_id: str) -> dict[tuple[str, int], list[TimelineTurn]]:
    rows = session.exec(select(Turn).where(Turn.run_id == run_id).order_by(col(Turn.started_at), col(Turn.ordinal)))
    return by_key(
        ((row.step_id, row.attempt), TimelineTurn.of(row, turn_id=row.id, tokens=row.total_tokens)) for row in rows
    )


def _attempts(
    step: Step, ended: Sequence[Attempt], turns: Mapping[tuple[str, int], list[TimelineTurn]], *, joins: bool
) -> list[TimelineAttempt]:
    found: list[TimelineAttempt] = []
    for row in ended:
        found.append(_attempt(step, row.attempt, row.owner, row.started_at, row, found, turns, joins=joins))
    if step.state == StepState.RUNNING:
        begun = step.claimed_at or step.created_at
        found.append(_attempt(step, step.attempt, step.owner or "", begun, None, found, turns, joins=joins))
    return found


def _attempt(
    step: Step, number: int, worker: str, begun: dt.datetime, ended: Attempt | None, before: list[TimelineAttempt],
    turns: Mapping[tuple[str, int], list[TimelineTurn]], *, joins: bool,
) -> TimelineAttempt:  # fmt: skip
    ready = before[-1].ended_at if before else _ready_at(step, begun, joins=joins)
    return TimelineAttempt(
        attempt=number,
        worker=worker,
        started_at=begun,
        ended_at=ended.ended_at if ended is not None else None,
        outcome=ended.outcome if ended is not None else RUNNING,
        reason=ended.reason if ended is not None else None,
        waited=max((begun - ready).total_seconds(), 0.0) if ready is not None else None,
        taken_over=bool(before) and before[-1].outcome == AttemptEnd.LOST,
        turns=turns.get((step.id, number), []),
    )


def _ready_at(step: Step, begun: dt.datetime, *, joins: bool) -> dt.datetime | None:
    if not joins:
        return step.created_at
    return step.due_at if step.due_at <= begun else None


def _expected(session: Session, run: Run, seen: set[str]) -> list[str]:
    if run.finished_at is not None:
        return []
    whole = (Run.kind == run.kind, Run.state == RunState.DONE, col(Run.id) < run.id)
    last = session.exec(select(Run.id).where(*whole).order_by(col(Run.id).desc()).limit(1)).first()
    if last is None:
        return []
    known = session.exec(select(Step.kind).where(Step.run_id == last).order_by(col(Step.created_at), col(Step.id)))
    return [kind for kind in dict.fromkeys(known.all()) if kind not in seen]


class RunCourse(Frozen):
    """A run with its funnel, its timeline and its candidates, all of one moment. run: without the steps, which the
    timeline has."""

    run: RunDetail
    funnel: Funnel
    timeline: Timeline
    table: CandidateTable


@cache
def course_type() -> type[RunCourse]:
    return run_parts.widened(RunCourse, run=detail_type())


def course(session: Session, settings: Settings, run: Run) -> RunCourse:
    return course_type()(
        run=detail(session, settings, run).model_copy(update={"steps": []}),
        funnel=funnel(session, run),
        timeline=timeline(session, run),
        table=candidate_table(session, run),
    )
