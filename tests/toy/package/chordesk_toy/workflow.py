"""Kinds of runs that only tests have: a group squares numbers, a join adds them up, a flat chord doubles the sum; and
one that opens several such runs and waits for them."""

from __future__ import annotations

from typing import Any

from sqlmodel import Session, select

from chordesk.plugins import (
    ChildRun,
    ClaimedStep,
    Desk,
    DeskApp,
    Done,
    Ending,
    EventType,
    HeldStep,
    NewStep,
    Notice,
    Run,
    Step,
    StepSpec,
    UsageError,
    Workflow,
    append_events,
    event,
    named_step,
    new_run,
    note,
    open_run,
    own_settings,
)
from chordesk_toy.settings import ToySettings

KIND = "toy"
FAMILY = "toys"


def open_toy(app: DeskApp, numbers: list[int]) -> Run:
    run = new_run(app.desk, KIND, {"numbers": numbers})
    return open_run(app, run, lambda session, row, finish: [NewStep("toy_split", finish)])


def open_toys(app: DeskApp, lists: list[list[int]]) -> Run:
    """Open a run that opens a toy run for each list of numbers and adds up what they came to."""
    run = new_run(app.desk, FAMILY, {"lists": lists})
    return open_run(app, run, lambda session, row, finish: [NewStep("toys_open", finish)])


def open_children(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    with desk.store.read() as session:
        lists = session.get_one(Run, step.run_id).params["lists"]
    join = NewStep("toys_sum", str(step.parent_id), waits=True)
    runs = [new_run(desk, KIND, {"numbers": numbers}, parent=step.run_id) for numbers in lists]
    first = [ChildRun(run, lambda session, row, finish: [NewStep("toy_split", finish)], join.id) for run in runs]
    return Done(children=[join], runs=first)


def add_up_runs(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Add up what the runs came to that have one; a note for each other."""
    with desk.store.read() as session:
        runs = list(session.exec(select(Run).where(named_step() == step.id)).all())
        totals = {
            found.run_id: found.result["value"]
            for found in session.exec(select(Step).where(Step.kind == "toy_total"))
            if found.result
        }
    lost = [f"a run of {run.params['numbers']} is {run.state}" for run in runs if run.state != "done"]
    return Done({"value": sum(totals.get(run.id, 0) for run in runs), "notes": lost})


def split(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    with desk.store.read() as session:
        numbers = session.get_one(Run, step.run_id).params["numbers"]
    join = NewStep("toy_sum", str(step.parent_id), waits=True)
    return Done(children=[join, *(NewStep("toy_square", join.id, str(number)) for number in numbers)])


def square(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    if int(step.subject) > own_settings(desk.settings_of(step.run_id), ToySettings).largest:
        raise UsageError(f"{step.subject} is too large")
    return Done({"value": int(step.subject) ** 2})


def add_up(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    parts = children(desk, step)
    total = sum(part.result.get("value", 0) for part in parts)
    notes = [f"{part.subject} was not squared" for part in parts if part.state == "failed"]
    join = NewStep("toy_total", str(step.parent_id), waits=True)
    doubled = [NewStep("toy_double", join.id, hand, payload={"value": total}) for hand in ("left", "right")]
    return Done({"value": total, "notes": notes}, children=[join, *doubled])


def double(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    return Done({"value": 2 * step.payload["value"]})


def total(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    found = sum(part.result["value"] for part in children(desk, step))

    def tell(session: Session) -> None:
        append_events(session, [event(EventType("toy.added"), step.run_id, total=found)])
        note(session, Notice(key=f"toy:{step.id}", kind="toy_added", subject=str(found), run_id=step.run_id))

    return Done({"value": found}, also=tell)


def play(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    return Done({"played": step.subject})


def children(desk: Desk, step: ClaimedStep) -> list[Any]:
    with desk.store.read() as session:
        return list(session.exec(select(Step).where(Step.parent_id == step.id).order_by(Step.subject)).all())


WORKFLOWS = (
    Workflow(
        KIND,
        steps=(
            StepSpec("toy_split", "screen", split),
            StepSpec("toy_square", "screen", square, title="squares", fan_out="group"),
            StepSpec("toy_sum", "ops", add_up, spine=True, join=True),
            StepSpec("toy_double", "research", double, title="doubles", fan_out="chord", body="toy_total"),
            StepSpec("toy_total", "ops", total, spine=True, join=True, after="both hands", writes=("notice",)),
            StepSpec("toy_play", "research", play),
        ),
    ),
    Workflow(
        FAMILY,
        steps=(
            StepSpec("toys_open", "screen", open_children, spine=True),
            StepSpec("toys_sum", "ops", add_up_runs, join=True),
        ),
    ),
)
