"""Sends ready steps as Celery messages: a group, a flat chord or single ones, as their kinds declare.

A message that cannot be sent is no loss: the sweep sends what the database has as due.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import structlog
from celery import Celery, chord, group
from celery.canvas import Signature
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.engine import kinds, sweeping
from chordesk.tasks.engine.kinds import StepSpec, task_name
from chordesk.tasks.engine.steps import ReadyStep

log = structlog.get_logger(__name__)


def send(app: Celery, ready: Sequence[ReadyStep]) -> None:
    """Send steps that were just made ready."""
    try:
        for run_id in dict.fromkeys(step.run_id for step in ready):
            own = [step for step in ready if step.run_id == run_id]
            with desk_of(app).telemetry.within(run_id):
                for canvas in canvases(app, own):
                    canvas.apply_async()
    except (OperationalError, RedisError, OSError) as error:
        log.warning("dispatch.failed", steps=len(ready), error=str(error))
        _note_unsent(app, ready)


def _note_unsent(app: Celery, ready: Sequence[ReadyStep]) -> None:
    """Let the next sweep send them, not the one that would find them overdue. Some may have got through: a step that
    is sent twice is done once."""
    try:
        with desk_of(app).store.session() as session:
            sweeping.mark_unsent(session, [step.id for step in ready])
    except SQLAlchemyError as error:
        log.warning("dispatch.not_noted", error=str(error))


def canvases(app: Celery, ready: Sequence[ReadyStep]) -> Iterator[Signature]:
    """Yield a group or a flat chord for each set of steps that are sent together, and a single message for each other
    step. A kind that this version does not know is left to the workers that do."""
    sets: dict[tuple[StepSpec, str | None], list[ReadyStep]] = {}
    for step in ready:
        spec = kinds.find_step(step.kind)
        if spec is None:
            log.warning("dispatch.unknown_kind", kind=step.kind, step=step.id)
            continue
        together = step.id if spec.fan_out is None else step.parent_id
        sets.setdefault((spec, together), []).append(step)
    for (spec, _), steps in sets.items():
        yield _canvas(app, spec, steps)


def _canvas(app: Celery, spec: StepSpec, steps: Sequence[ReadyStep]) -> Signature:
    """Return one set as a canvas; a set of one is a single message. The results of a chord's header are ids; its body
    reads the database."""
    signatures = [_signature(app, step) for step in steps]
    if len(steps) == 1:
        return signatures[0]
    if spec.fan_out == "group":
        return group(signatures)
    body = ReadyStep(str(steps[0].parent_id), spec.body, "", None, steps[0].subject, steps[0].run_id)
    return chord(signatures, body=_signature(app, body), app=app)


def _signature(app: Celery, step: ReadyStep) -> Signature:
    # Results are read from the database. A sender that kept them would subscribe to each task's end.
    # The shown arguments are for Flower's readers; the message itself carries the id alone.
    shown = f"({' '.join(part for part in (step.role, step.subject, step.id) if part)})"
    signature = app.signature(task_name(step.kind), args=(step.id,), immutable=True)
    headers = desk_of(app).telemetry.headers(step.run_id)
    return signature.set(ignore_result=True, argsrepr=shown, **({"headers": headers} if headers else {}))
