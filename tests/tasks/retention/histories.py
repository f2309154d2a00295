"""Random histories of a desk: runs that rest on each other, with orders, scores and reviews; and the rows that must
stay, found row by row along the foreign keys, which is another way than the code's."""

from __future__ import annotations

import datetime as dt
import random
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, select
from sqlmodel import Session

from chordesk.models.database.store import Store, every_table
from chordesk.models.states import OrderState, RunKind, RunState, StepKind, StepState
from chordesk.models.tables.board import Question, VerdictQuestion
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runs import (
    Attempt,
    CandidateHit,
    Decision,
    Report,
    ReportBasis,
    Run,
    ScreenHit,
    ShardBasis,
    ToolCall,
    Turn,
    Verdict,
    VerdictReport,
)
from chordesk.models.tables.runtime import EventHead, RoleSchedule, RuntimeConversation
from tests.builders import MARKET_NOW, a_candidate, a_run, a_step, a_turn
from tests.tasks.views.chain import a_preview, an_order

Key = tuple[str, tuple[Any, ...]]


@dataclass(slots=True)
class History:
    """The ids of all runs, and those with a row that keeps it: open, young, with an order, reviewed, or scored."""

    runs: list[str]
    whole: set[str]
    scored: set[str]


def a_history(session: Session, chance: random.Random, runs: int) -> History:
    """Write that many runs, each on a market day of its own."""
    made = History([], set(), set())
    reports: list[Report] = []
    verdicts: list[Verdict] = []
    turns: list[Turn] = []
    for number in range(runs):
        run = _run(session, chance, made, number)
        own = _researched(session, chance, run, turns)
        _judged(session, chance, made, run, own, reports, verdicts)
        reports += own
        made.runs.append(run.id)
    return made


def _run(session: Session, chance: random.Random, made: History, number: int) -> Run:
    age = chance.choice((400, 500, 900, 900, 2, 366))
    state = chance.choice((RunState.DONE, RunState.FAILED, RunState.STOPPED, RunState.DONE, RunState.RUNNING))
    source = chance.choice(made.runs) if made.runs and chance.random() < 0.25 else None
    ended = utcnow() - dt.timedelta(days=age)
    own = f"{new_id()[:12]}{number:020x}"  # in their order: no run rests on one of the same millisecond
    run = a_run(
        session, id=own, state=state, kind=RunKind.TRADE if source else RunKind.SCREEN, created_at=ended,
        params={"source_run": source} if source else {}, parent_run_id=source if chance.random() < 0.7 else None,
        market_now=MARKET_NOW + dt.timedelta(days=number), finished_at=None if state == RunState.RUNNING else ended,
    )  # fmt: skip
    if state == RunState.RUNNING or age < 365:
        made.whole.add(run.id)
    session.add(EventHead(run_id=run.id, last=0))
    return run


def _researched(session: Session, chance: random.Random, run: Run, turns: list[Turn]) -> list[Report]:
    """turns: of earlier screeners, whose hits may be in this run too; its own are added."""
    found = []
    for symbol in chance.sample(("IBM", "KO", "GE", "F"), chance.randint(0, 3)):
        screen = a_step(session, run, kind=StepKind.SCREEN_SHARD, state=StepState.DONE)
        seen = a_turn(session, screen)
        values = {"lens": "technical", "instrument": "equity", "confidence": "high", "thesis": "t"}
        lent = chance.choice(turns) if turns and chance.random() < 0.2 else seen  # of a shard that counted again
        hit = ScreenHit(
            run_id=run.id, step_id=screen.id, turn_id=lent.id, symbol=symbol, market_at=run.market_now, **values
        )
        place = {"account": run.account, "market": run.market, "market_at": run.market_now, "digest": "d"}
        session.add(ShardBasis(turn_id=seen.id, calls=b"", **place))
        turns.append(seen)
        candidate = a_candidate(session, run, symbol)
        session.add(hit)
        session.flush()
        session.add(CandidateHit(candidate_id=candidate.id, hit_id=hit.id))
        for role in ("quick", "risk"):
            step = a_step(session, run, role=role, subject=symbol, state=StepState.DONE, parent_id=screen.id)
            turn = a_turn(session, step)
            for ordinal in range(chance.randint(0, 3)):
                call = {"tool": "quote", "output": "{}", "success": True, "has_data": True, "seconds": 0.1}
                session.add(ToolCall(turn_id=turn.id, ordinal=ordinal, **call))
            session.add(
                Attempt(step_id=step.id, attempt=1, owner="w", started_at=utcnow(), ended_at=utcnow(), outcome="done")
            )
            lived = {
                "role": role,
                "subject": symbol,
                "runtime_kind": "codex",
                "thread_id": "t",
                "thread_reason": "initial",
            }
            session.add(RuntimeConversation(run_id=run.id, step_id=step.id, kept=False, worker="w", **lived))
            report = Report(
                run_id=run.id, step_id=step.id, candidate_id=candidate.id, turn_id=turn.id, symbol=symbol, role=role,
                status="completed", verdict="CONFIRMED", confidence="high", author="rules", market_at=run.market_now,
            )  # fmt: skip
            session.add(report)
            session.flush()
            session.add(ReportBasis(report_id=report.id, digest="d", calls=b""))
            found.append(report)
    return found


def _judged(
    session: Session, chance: random.Random, made: History, run: Run, own: list[Report], earlier: list[Report],
    verdicts: list[Verdict],
) -> None:  # fmt: skip
    """Verdicts on the run's reports, and on some of earlier runs; then what rests on those and on earlier verdicts."""
    by_symbol: dict[str, list[Report]] = defaultdict(list)
    for report in own:
        by_symbol[report.symbol].append(report)
    for symbol, reports in by_symbol.items():
        values = {"rating": "BUY", "confidence": "medium", "summary": "s", "key_risks": ["r"]}
        verdict = Verdict(
            run_id=run.id, candidate_id=reports[0].candidate_id, symbol=symbol, market_at=run.market_now, **values
        )
        session.add(verdict)
        session.flush()
        cited = [*reports, *(chance.sample(earlier, 1) if earlier and chance.random() < 0.2 else [])]
        session.add_all(VerdictReport(verdict_id=verdict.id, report_id=report.id) for report in cited)
        verdicts.append(verdict)
        if chance.random() < 0.1:
            _question(session, run, verdict)
            made.scored.add(run.id)
    if verdicts and chance.random() < 0.15:
        step = a_step(session, run, kind=StepKind.DECIDE, state=StepState.DONE)
        turn = a_turn(session, step)
        decision = Decision(
            run_id=run.id, step_id=step.id, turn_id=turn.id, account="paper", status="completed", author="a"
        )
        session.add(decision)
        session.flush()
        a_preview(session, an_order(session, run, decision, chance.choice(verdicts), 0, state=OrderState.PREVIEWED))
        made.whole.add(run.id)
    if own and chance.random() < 0.1:
        report = chance.choice(own)
        key = {"account": "paper", "market": "replay", "symbol": new_id(), "role": report.role}
        values = {"run_id": run.id, "report_id": report.id, "reason": "initial_run", "last_at": run.market_now}
        session.add(RoleSchedule(**key, **values))
        made.whole.add(run.id)
    session.flush()


def _question(session: Session, run: Run, verdict: Verdict) -> None:
    rule = {"kind": "beats_median", "symbol": verdict.symbol, "day": f"{run.market_now:%Y-%m-%d}", "sessions": 10}
    times = {"opens_at": run.market_now, "closes_at": run.market_now + dt.timedelta(days=14)}
    values = {"source": "verdict", "market": "replay", "text": "t", "state": "open", "subjects": [verdict.symbol]}
    question = Question(external_id=verdict.id, rule=rule, **times, **values)
    session.add(question)
    session.flush()
    session.add(VerdictQuestion(verdict_id=verdict.id, question_id=question.id))


def rows(store: Store) -> dict[Key, dict[str, Any]]:
    """Return all rows of the database by table and primary key."""
    found = {}
    with store.read() as session:
        for table in every_table().values():
            for row in session.execute(select(table)).mappings():
                values = {column.name: row[column] for column in table.columns}
                found[_key(table, values)] = values
    return found


def _key(table: Table, values: dict[str, Any]) -> Key:
    return table.name, tuple(values[column.name] for column in table.primary_key.columns)


def reachable(found: dict[Key, dict[str, Any]], roots: set[Key]) -> set[Key]:
    """Return the rows that others rest on: along each foreign key, and from a verdict, candidate or report to the
    links, turns and tool calls by which it came about."""
    below = _below(found)
    seen, waiting = set(roots), list(roots)
    while waiting:
        key = waiting.pop()
        table, values = every_table()[key[0]], found[key]
        nearby = [
            (foreign.column.table.name, (values[foreign.parent.name],))
            for foreign in table.foreign_keys
            if values[foreign.parent.name] is not None
        ]
        for other in [*nearby, *below[key]]:
            if other in found and other not in seen:
                seen.add(other)
                waiting.append(other)
    return seen


_DOWN = {("verdict", "verdict_report"), ("candidate", "candidate_hit"), ("turn", "tool_call"), ("order", "preview")}


def _below(found: dict[Key, dict[str, Any]]) -> dict[Key, list[Key]]:
    below: dict[Key, list[Key]] = defaultdict(list)
    for key, values in found.items():
        for foreign in every_table()[key[0]].foreign_keys:
            if (foreign.column.table.name, key[0]) in _DOWN:
                below[(foreign.column.table.name, (values[foreign.parent.name],))].append(key)
    return below


def of_runs(found: dict[Key, dict[str, Any]], runs: set[str]) -> set[Key]:
    """Return the rows that name one of these runs as their own."""
    own = {key for key, values in found.items() if values.get("run_id") in runs}
    return own | {("run", (run_id,)) for run_id in runs}
