"""The check-up: asks the role range_note about one symbol and stores its answer."""

from __future__ import annotations

from chordesk.plugins import (
    ClaimedStep,
    Desk,
    DeskApp,
    Done,
    Ending,
    HeldStep,
    NewStep,
    Run,
    StepSpec,
    Workflow,
    new_run,
    open_run,
    validator_subject,
)

from .tables import RangeCheckup

KIND = "checkup"


def open_checkup(app: DeskApp, symbol: str) -> Run:
    """Open a run with one step, which asks the role about a symbol."""
    run = new_run(app.desk, KIND, {"symbol": symbol})
    return open_run(app, run, lambda session, row, finish: [NewStep("checkup_ask", finish, symbol, "range_note")])


def ask(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Run the role's turn; its rows are written with the step's end."""
    brief = validator_subject(step.subject, "equity", [], desk.settings)
    run = held.turns.run(step.role, step.subject, brief)
    answer = run.value  # empty where the role has none
    notes = [RangeCheckup(run_id=step.run_id, symbol=step.subject, summary=answer["summary"])] if answer else []
    return Done({"outcome": run.outcome.outcome}, (*run.rows, notes))


WORKFLOWS = (
    Workflow(
        KIND, mode="research", steps=(StepSpec("checkup_ask", "research", ask, title="asked", turn=True, spine=True),)
    ),
)
