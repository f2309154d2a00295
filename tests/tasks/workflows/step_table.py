"""What runs really do, held against docs/reference/workflows.md, which is made of the kinds of steps."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from sqlalchemy import Engine, event
from sqlmodel import Session, col, select

from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.engine import kinds

_WRITTEN = re.compile(r'\s*(?:INSERT(?: OR \w+)? INTO|UPDATE|DELETE FROM) "?(\w+)')
# Of every step: its own rows, those of its account's fence, and what the engine keeps of it.
OF_EVERY_STEP = {"run", "step", "attempt", "event_batch", "event_head", "submitter", "reconciliation", "account"}
OF_A_TURN = {"turn", "tool_call", "artifact", "masked_turn"}  # the last of a turn under a mask


def undeclared_steps(session: Session) -> set[tuple[str, str]]:
    """Return kinds of runs, each with a kind of step that it had and the table does not give it. Steps that this desk
    does not know are not counted."""
    found = session.exec(select(Run.kind, Step.kind).join(Run, col(Run.id) == col(Step.run_id)).distinct()).all()
    known = {(run, spec.kind) for run in kinds.run_kinds() for spec in kinds.steps_of(run)}
    return {(run, step) for run, step in found if step != "finish" and kinds.find_step(step) is not None} - known


@contextmanager
def writes_of_steps() -> Iterator[dict[str, set[str]]]:
    """Yield the tables that each kind of step writes in this process, as they are written."""
    written: dict[str, set[str]] = defaultdict(set)

    def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        kind, table = structlog.contextvars.get_contextvars().get("kind"), _WRITTEN.match(statement)
        if kind is not None and table is not None:
            written[kind].add(table[1])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield written
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def undeclared_writes(written: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the tables that a kind of step wrote and that the table of the docs does not give it."""
    found = {}
    for kind, tables in written.items():
        spec = kinds.find_step(kind)
        assert spec is not None
        found[kind] = tables - OF_EVERY_STEP - {*spec.writes} - (OF_A_TURN if spec.turn else set())
    return {kind: tables for kind, tables in found.items() if tables}
