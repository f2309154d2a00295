"""Sends ready steps as Celery messages: shards as a group, the roles after the quick one as a flat chord, the rest one
by one. A message that cannot be sent is no loss: the sweep sends what the database says is due."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import structlog
from celery import Celery, chord, group
from celery.canvas import Signature
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from agents.researchers import FIRST_ROLE
from models.states import StepKind
from tasks import sweeping
from tasks.bootstrap import desk_of
from tasks.graph import Ready

log = structlog.get_logger(__name__)


def task_name(kind: StepKind) -> str:
    return f"desk.{kind.value}"


def send(app: Celery, ready: Sequence[Ready], *, chord_sends_conclude: bool = False) -> None:
    """Send steps that were just made ready. With `chord_sends_conclude` a conclude step is left to the body of the
    chord that its last report belongs to."""
    try:
        for run_id in dict.fromkeys(step.run_id for step in ready):
            own = [step for step in ready if step.run_id == run_id]
            with desk_of(app).telemetry.within(run_id):
                for canvas in canvases(app, own, chord_sends_conclude=chord_sends_conclude):
                    canvas.apply_async()
    except (OperationalError, RedisError, OSError) as error:
        log.warning("dispatch.failed", steps=len(ready), error=str(error))
        _note_unsent(app, ready)


def _note_unsent(app: Celery, ready: Sequence[Ready]) -> None:
    """Let the next sweep send them, not the one that would find them overdue. Some may have got through: a step that
    is sent twice is done once."""
    try:
        with desk_of(app).store.session() as session:
            sweeping.unsent(session, [step.id for step in ready])
    except SQLAlchemyError as error:
        log.warning("dispatch.not_noted", error=str(error))


def canvases(app: Celery, ready: Sequence[Ready], *, chord_sends_conclude: bool) -> Iterable[Signature]:
    """Groups of one and chords of one are sent as they are: a single message."""
    shards = [step for step in ready if step.kind is StepKind.SCREEN_SHARD]
    headers = _headers(ready)
    together = [*(shards if len(shards) > 1 else ()), *chain.from_iterable(headers)]
    if len(shards) > 1:
        yield group(_signature(app, step) for step in shards)
    for header in headers:
        yield _chord(app, header)
    for step in ready:
        if step not in together and not (chord_sends_conclude and step.kind is StepKind.CONCLUDE):
            yield _signature(app, step)


def _headers(ready: Sequence[Ready]) -> list[list[Ready]]:
    """The roles after the quick one, by candidate, where there is more than one."""
    by_parent: dict[str | None, list[Ready]] = {}
    for step in ready:
        if step.kind is StepKind.REPORT and step.role != FIRST_ROLE:
            by_parent.setdefault(step.parent_id, []).append(step)
    return [roles for roles in by_parent.values() if len(roles) > 1]


def _chord(app: Celery, header: Sequence[Ready]) -> Signature:
    """A flat chord. The header's results are ids; the body reads the database."""
    body = Ready(str(header[0].parent_id), StepKind.CONCLUDE, "", None, header[0].subject, header[0].run_id)
    return chord([_signature(app, step) for step in header], body=_signature(app, body), app=app)


def _signature(app: Celery, step: Ready) -> Signature:
    # Results are read from the database. A sender that kept them would subscribe to each task's end.
    # The shown arguments are for Flower's readers; the message itself carries the id alone.
    shown = f"({' '.join(part for part in (step.role, step.subject, step.id) if part)})"
    signature = app.signature(task_name(step.kind), args=(step.id,), immutable=True)
    headers = desk_of(app).telemetry.headers(step.run_id)
    return signature.set(ignore_result=True, argsrepr=shown, **({"headers": headers} if headers else {}))
