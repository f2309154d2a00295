"""What is missing in a run as a whole: steps that failed, turns without an answer, sessions and prices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from chordesk.models.states import RUN_FINAL, STEP_FINAL, StepKind, StepState
from chordesk.tasks.documents.schema.parts import MissingItem
from chordesk.tasks.engine.budgets import Cost
from chordesk.tasks.views.history.timeline import Timeline
from chordesk.tasks.views.run_detail import RunDetail

_FINE = frozenset({"completed", "skipped"})
_DETAILED = frozenset({StepKind.REPORT, StepKind.GRAPH})  # a symbol's own list has them


def missing_of_run(detail: RunDetail, steps: Timeline) -> Iterator[MissingItem]:
    """Yield what the run as a whole lacks; its symbols have their own."""
    if detail.state not in RUN_FINAL:
        left = sum(step.state not in STEP_FINAL for step in steps.steps)
        yield MissingItem(what="end", reason=f"the run goes on: {left} steps have not ended")
    yield from (MissingItem(what="run", reason=note) for note in detail.notes)
    for step in steps.steps:
        if step.state in (StepState.FAILED, StepState.STOPPED) and step.kind not in _DETAILED:
            name = " ".join(part for part in (step.kind, step.role) if part)
            reason = f"{step.state}: {step.error or 'no reason was kept'}"
            yield MissingItem(what=f"step {name}", reason=reason, symbol=step.subject or None, role=step.role or None)
    yield from _turns(steps)
    yield from missing_money(detail.cost)
    yield from _of_kind(detail)


def missing_money(cost: Cost) -> Iterator[MissingItem]:
    """Yield why the estimate of money leaves something out."""
    if cost.unpriced:
        yield MissingItem(what="money", reason=f"no price is known for {', '.join(cost.unpriced)}")
    if cost.uncounted:
        yield MissingItem(what="money", reason=f"{cost.uncounted} turns came without a count of tokens")


def _turns(steps: Timeline) -> Iterator[MissingItem]:
    counts = Counter(
        (step.role, turn.outcome)
        for step in steps.steps
        for attempt in step.attempts
        for turn in attempt.turns
        if turn.outcome not in _FINE
    )
    for (role, outcome), count in sorted(counts.items()):
        yield MissingItem(what="turns", reason=f"{count} {outcome}", role=role or None)


def _of_kind(detail: RunDetail) -> Iterator[MissingItem]:
    if detail.backtest is not None:
        for row in detail.backtest.rows:
            if row.reason:
                yield MissingItem(what="session", reason=f"{row.day}: {row.reason}")
            if row.unpriced:
                yield MissingItem(what="prices", reason=f"{row.day}: none for {', '.join(row.unpriced)}")
            if row.stale:
                yield MissingItem(what="prices", reason=f"{row.day}: old ones for {', '.join(row.stale)}")
        if detail.backtest.result is None:
            yield MissingItem(what="result", reason="the backtest has not come to its end")
    for graph in detail.graphs:
        if graph.reason:
            yield MissingItem(what="graph", reason=f"{graph.graph}: {graph.reason}")
    for voice in detail.voices:
        if voice.reason:
            yield MissingItem(what="voice", reason=f"round {voice.round}: {voice.reason}", role=voice.voice)
        for line in voice.left_out:
            yield MissingItem(what="forecast", reason=f"left out: {line}", role=voice.voice)
    for analysis in detail.analyses:
        for check in analysis.checks:
            if check.state == "unknown":
                yield MissingItem(what=f"check {check.id}", reason=check.text, symbol=analysis.symbol)
