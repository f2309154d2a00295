"""Runs: which there were, what one did, and how two differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from sqlmodel import Session, SQLModel, col, func, select

from chordesk.models import features
from chordesk.models.database.lookup import by_prefix
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.settings.variables import PREFIX
from chordesk.models.states import RunState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Run
from chordesk.models.text import SHORT_ID, one_line
from chordesk.tasks.asking.answers import MOST, Answer, Answering, Desk, listed, run_source
from chordesk.tasks.asking.questions import Question

Row = TypeVar("Row", bound=SQLModel)
_RUN_STATES: Mapping[str, tuple[RunState, ...]] = {
    **dict.fromkeys(("failed", "fail", "failing"), (RunState.FAILED,)),
    "stopped": (RunState.STOPPED,), "partial": (RunState.PARTIAL,),
    **dict.fromkeys(("running", "unfinished"), (RunState.RUNNING, RunState.STOPPING)),
    **dict.fromkeys(("done", "finished", "completed", "succeeded"), (RunState.DONE,)),
    **dict.fromkeys(("ended", "over"), (RunState.DONE, RunState.PARTIAL, RunState.FAILED, RunState.STOPPED)),
}  # fmt: skip


def _which_runs(desk: Desk, question: Question) -> list[Any]:
    """Return the conditions of the runs that are asked for: by kind, state, symbol and moment; none that another run
    opened."""
    from chordesk.tasks.reading.run_list import of_symbol

    kinds = named_kinds(question)
    states = [state for word, states in _RUN_STATES.items() if question.says(word) for state in states]
    wanted = [col(Run.parent_run_id).is_(None), *desk.told(Run), *desk.within(question, col(Run.created_at))]
    wanted += [] if "backtest" in kinds else [col(Run.account) == desk.account]
    wanted += [col(Run.kind).in_(kinds) if kinds else col(Run.kind).not_in(features.places("asides"))]
    wanted += [col(Run.state).in_(states)] if states else []
    return wanted + ([of_symbol(question.symbols[0])] if question.symbols else [])


def _newest_runs(session: Session, wanted: list[Any], most: int) -> Sequence[Run]:
    newest = (col(Run.created_at).desc(), col(Run.id).desc())
    return session.exec(select(Run).where(*wanted).order_by(*newest).limit(most)).all()


def runs(desk: Desk, question: Question) -> Answer:
    from chordesk.tasks.reading.run_details import outcome

    most, wanted = question.count or 5, _which_runs(desk, question)
    with desk.store.read() as session:
        by_state = select(Run.state, func.count()).where(*wanted).group_by(Run.state)
        counts = dict(session.execute(by_state).all())
        rows = _newest_runs(session, wanted, most)
        lines = [f"{one.id[:SHORT_ID]} {desk.time(one.created_at)}: {outcome(session, one)}" for one in rows]
    whole = sum(counts.values())
    told = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    head = f"{whole or 'no'} run{'' if whole == 1 else 's'}{desk.span(question)}{f': {told}' if told else ''}"
    return Answer(
        question=question.text, intent="runs", text=listed([head, *lines], whole - len(lines)),
        facts={"runs": whole, "states": counts}, sources=[run_source(one.id) for one in rows],
    )  # fmt: skip


def one_run(desk: Desk, question: Question) -> Answer:
    """Return what a run did: the named one, else the newest that fits the words."""
    from chordesk.tasks.engine.budgets import cost_of
    from chordesk.tasks.reading.run_details import outcome

    with desk.store.read() as session:
        if question.ids:
            run = found_run(session, desk, question.ids[0])
        elif found := _newest_runs(session, _which_runs(desk, question), 1):
            run = found[0]
        else:
            none = f"no such run of {desk.account}{desk.span(question)}"
            return Answer(question=question.text, intent="run", text=none, facts={"runs": 0})
        text = f"{run.id[:SHORT_ID]}, a {run.kind}, {run.state}, {desk.time(run.created_at)}: {outcome(session, run)}"
        cost = cost_of(session, desk.settings, run.id)
    lines = [text, f"cost: {cost}", *(f"note: {note}" for note in run.notes[:3])]
    facts = {"state": run.state, "kind": run.kind, "summary": run.summary}
    return Answer(
        question=question.text, intent="run", text="\n".join(lines), facts=facts, sources=[run_source(run.id)]
    )


def compare(desk: Desk, question: Question) -> Answer:
    """Compare two runs by their ids, else the two newest that fit the words."""
    from chordesk.tasks.reading.run_list import comparison

    with desk.store.read() as session:
        pair = [found_run(session, desk, part) for part in question.ids[:2]]
        if not pair and len(pair := [*reversed(_newest_runs(session, _which_runs(desk, question), 2))]) < 2:
            raise UsageError("there are no two such runs", remedy="name two runs by their ids")
        ours, theirs = pair
        found = comparison(session, desk.settings, ours, theirs)
    differ = [one for one in found.candidates if one.changed and one.ours is not None and one.theirs is not None]
    names = ours.id[:SHORT_ID], theirs.id[:SHORT_ID]
    lines = [
        f"{name} has {row.candidates} candidates" for name, row in zip(names, (found.ours, found.theirs), strict=True)
    ]
    for name, only in zip(names, (found.only_ours, found.only_theirs), strict=True):
        if only:
            lines.append(
                f"only {name}: {', '.join(only[:20])}{f' and {len(only) - 20} more' if len(only) > 20 else ''}"
            )
    lines += [
        f"{one.symbol}: {one.ours} ({one.ours_confidence}) / {one.theirs} ({one.theirs_confidence})"
        for one in differ[:MOST]
    ]
    lines += [
        f"{PREFIX}{one.name.upper()}: {one_line(str(one.ours), 60)} / {one_line(str(one.theirs), 60)}"
        for one in found.settings[:MOST]
    ]
    facts: dict[str, Any] = {"only_ours": found.only_ours, "only_theirs": found.only_theirs}
    facts["tokens"] = [found.ours.tokens, found.theirs.tokens]
    sources = [run_source(ours.id), run_source(theirs.id)]
    return Answer(question=question.text, intent="compare", text="\n".join(lines), facts=facts, sources=sources)


def named_kinds(question: Question) -> list[str]:
    from chordesk.tasks.engine.kinds import run_kinds

    return [kind for kind in run_kinds() if question.says(kind, f"{kind}s", f"{kind}es")]


def newest_of(session: Session, desk: Desk, question: Question) -> Run | None:
    """Return the newest run of the kinds that a question names, None where it names none or there is none."""
    from chordesk.tasks.engine.kinds import run_kinds

    if not question.says("run", *run_kinds()):
        return None
    found = _newest_runs(session, _which_runs(desk, question), 1)
    return found[0] if found else None


def found_run(session: Session, desk: Desk, part: str) -> Run:
    """Return the run whose id begins so. Raises NotFound, also for one that a model may not be told of."""
    return _told(session, desk, by_prefix(session, Run, part))


def found_order(session: Session, desk: Desk, part: str) -> Order:
    """As found_run, of an order."""
    return _told(session, desk, by_prefix(session, Order, part))


def _told(session: Session, desk: Desk, row: Row) -> Row:
    table, noun = type(row), str(row.__tablename__)
    own = (table.id == row.id, table.account == desk.account)  # type: ignore[attr-defined]
    if desk.clock is not None and session.exec(select(table).where(*own, *desk.told(table))).first() is None:
        why = f"the {noun} {row.id[:SHORT_ID]} is of another account, of a later market time, or masked"  # type: ignore[attr-defined]
        raise NotFound(why, remedy=f"ask for one that {noun}s_list has")
    return row


ANSWERS: Mapping[str, Answering] = {"runs": runs, "run": one_run, "compare": compare}
