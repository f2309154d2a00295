"""What runs took: turns, tokens, money and time, by run and by role."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from chordesk.models.tables.columns import utcnow
from chordesk.tasks.documents.schema.parts import RoleTotal, Totals
from chordesk.tasks.engine.budgets import Cost
from chordesk.tasks.views.history.listing import RunRow
from chordesk.tasks.views.history.timeline import Timeline, TimelineTurn

_SKIPPED = "skipped"


def totals(runs: Sequence[RunRow], timelines: Iterable[Timeline]) -> Totals:
    """Return the sums over runs. timelines: theirs, for the roles; of a backtest's days there is none here."""
    return Totals(
        runs=len(runs),
        turns=sum(row.turns for row in runs),
        tokens=sum(row.tokens for row in runs),
        cost=_cost([row.cost for row in runs]),
        seconds=sum(((row.finished_at or utcnow()) - row.created_at).total_seconds() for row in runs),
        roles=_roles(timelines),
    )


def _cost(costs: Sequence[Cost]) -> Cost:
    known = [one.usd for one in costs if one.usd is not None]
    return Cost(
        usd=round(sum(known), 6) if known else None,
        unpriced=sorted({name for one in costs for name in one.unpriced}),
        uncounted=sum(one.uncounted for one in costs),
        rules=any(one.rules for one in costs),
        local=any(one.local for one in costs),
    )


def _roles(timelines: Iterable[Timeline]) -> list[RoleTotal]:
    turns: dict[str, list[TimelineTurn]] = defaultdict(list)
    for one in timelines:
        for step in one.steps:
            for attempt in step.attempts:
                turns[step.role or step.kind] += [turn for turn in attempt.turns if turn.outcome != _SKIPPED]
    return [_role(role, found) for role, found in sorted(turns.items()) if found]


def _role(role: str, turns: Sequence[TimelineTurn]) -> RoleTotal:
    counted = [turn.tokens for turn in turns if turn.tokens is not None]
    outcomes: dict[str, int] = {}
    for turn in turns:
        outcomes[turn.outcome] = outcomes.get(turn.outcome, 0) + 1
    return RoleTotal(
        role=role,
        turns=len(turns),
        outcomes=outcomes,
        tokens=sum(counted) if counted else None,
        seconds=round(sum((turn.finished_at - turn.started_at).total_seconds() for turn in turns), 3),
    )
