"""Ready steps as Celery messages: a group, a flat chord or single ones, as their kinds declare.

A message that cannot be sent is not a loss: the sweep sends what the database has as due.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import structlog
from celery import chord, group
from celery.canvas import Signature
from celery.utils.nodenames import worker_direct
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from chordesk.tasks.engine import kinds, step_queries
from chordesk.tasks.engine.kinds import StepSpec, task_name
from chordesk.tasks.engine.steps import ReadyStep
from chordesk.tasks.worker.messages import DeskApp

log = structlog.get_logger(__name__)


def send(app: DeskApp, ready: Sequence[ReadyStep]) -> None:
    if app.plays is not None:
        app.plays(ready)
        return
    with _noting_unsent(app, ready):
        for run_id in dict.fromkeys(step.run_id for step in ready):
            own = [step for step in ready if step.run_id == run_id]
            with app.desk.telemetry.within(run_id):
                for canvas in canvases(app, own):
                    canvas.apply_async()


@contextmanager
def _noting_unsent(app: DeskApp, ready: Sequence[ReadyStep]) -> Iterator[None]:
    try:
        yield
    except (OperationalError, RedisError, OSError) as error:
        log.warning("dispatch.failed", steps=len(ready), error=str(error))
        _note_unsent(app, ready)


def send_to(app: DeskApp, steps: Sequence[ReadyStep], node: str) -> None:
    """Send steps to one worker. node: its name on the broker."""
    with _noting_unsent(app, steps):
        for step in steps:
            _signature(app, step).apply_async(queue=worker_direct(node))


def _note_unsent(app: DeskApp, ready: Sequence[ReadyStep]) -> None:
    """Let the next sweep send them. Some may have got through: a step that is sent twice is done once."""
    try:
        with app.desk.store.session() as session:
            step_queries.mark_unsent(session, [step.id for step in ready])
    except SQLAlchemyError as error:
        log.warning("dispatch.not_noted", error=str(error))


def canvases(app: DeskApp, ready: Sequence[ReadyStep]) -> Iterator[Signature]:
    """A group or flat chord for steps that are sent together, a message for each other. Unknown kinds are left out."""
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


def _canvas(app: DeskApp, spec: StepSpec, steps: Sequence[ReadyStep]) -> Signature:
    """One message for a set of one. The results of a chord's header are ids; its body reads the database."""
    signatures = [_signature(app, step) for step in steps]
    if len(steps) == 1:
        return signatures[0]
    if spec.fan_out == "group":
        return group(signatures)
    body = ReadyStep(str(steps[0].parent_id), spec.body, "", None, steps[0].subject, steps[0].run_id)
    return chord(signatures, body=_signature(app, body), app=app)


def _signature(app: DeskApp, step: ReadyStep) -> Signature:
    # Results are read from the database. A sender that kept them would subscribe to each task's end.
    # The shown arguments are for Flower's readers; the message itself carries the id alone.
    shown = f"({' '.join(part for part in (step.role, step.subject, step.id) if part)})"
    signature = app.signature(task_name(step.kind), args=(step.id,), immutable=True)
    headers = app.desk.telemetry.headers(step.run_id)
    return signature.set(ignore_result=True, argsrepr=shown, **({"headers": headers} if headers else {}))
