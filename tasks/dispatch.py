"""Sends ready steps as Celery messages: shards as a group, the roles after the quick one as a flat chord, the rest one
by one. A message that cannot be sent is no loss: the sweep sends what the database says is due."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import structlog
from celery import Celery, chord, group
from celery.canvas import Signature
from kombu.exceptions import OperationalError

from agents.researchers import FIRST_ROLE
from models.states import StepKind
from tasks.graph import Ready

log = structlog.get_logger(__name__)


def task_name(kind: StepKind) -> str:
    return f"desk.{kind.value}"


def send(app: Celery, ready: Sequence[Ready], *, chord_sends_conclude: bool = False) -> None:
    """Send steps that were just made ready. With `chord_sends_conclude` a conclude step is left to the body of the
    chord that its last report belongs to."""
    try:
        for canvas in canvases(app, ready, chord_sends_conclude=chord_sends_conclude):
            canvas.apply_async()
    except (OperationalError, OSError) as error:
        log.warning("dispatch.failed", steps=len(ready), error=str(error))


def canvases(app: Celery, ready: Sequence[Ready], *, chord_sends_conclude: bool) -> Iterable[Signature]:
    shards = [step for step in ready if step.kind is StepKind.SCREEN_SHARD]
    roles = [step for step in ready if step.kind is StepKind.REPORT and step.role != FIRST_ROLE and step.parent_id]
    if len(shards) > 1:
        yield group(_signature(app, step.id, step.kind) for step in shards)
    if len(roles) > 1:
        yield from _chords(app, roles)
    for step in ready:
        if (step in shards and len(shards) > 1) or (step in roles and len(roles) > 1):
            continue
        if step.kind is StepKind.CONCLUDE and chord_sends_conclude:
            continue
        yield _signature(app, step.id, step.kind)


def _chords(app: Celery, roles: Sequence[Ready]) -> Iterable[Signature]:
    """One flat chord a candidate. The header's results are ids; the body reads the database."""
    for parent in dict.fromkeys(step.parent_id for step in roles):
        header = [_signature(app, step.id, step.kind) for step in roles if step.parent_id == parent]
        yield chord(header, body=_signature(app, str(parent), StepKind.CONCLUDE), app=app)


def _signature(app: Celery, step_id: str, kind: StepKind) -> Signature:
    # Results are read from the database. A sender that kept them would subscribe to each task's end.
    return app.signature(task_name(kind), args=(step_id,), immutable=True).set(ignore_result=True)
