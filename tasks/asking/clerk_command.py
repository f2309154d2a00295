"""What `desk ask` does with a question that the rows do not answer: a run, which it waits for."""

from __future__ import annotations

import sys

import typer

from chordesk.models.text import SHORT_ID
from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.shell import checked, whoami
from chordesk.tasks.cli.start import INTERRUPTED, follow, reached


def ask_clerk(
    text: str, account: str | None, dialogue: str | None, budget: int | None, *, wait: bool, as_json: bool
) -> tuple[str, int]:
    """Open the run and print its answer; return the dialogue, and the code to end with. Raises RedisDown without a
    running desk, before anything is written, and UsageError for another account than the desk's: its market and clock
    are that one's."""
    from chordesk.models.asking.tables import AskingEntry
    from chordesk.models.errors import UsageError
    from chordesk.tasks.asking.clerk_runs import AskRequest
    from chordesk.tasks.asking.dialogues import entry_view, person_of
    from chordesk.tasks.asking.display import TERMINAL, entry_shown
    from chordesk.tasks.asking.questions import cleaned
    from chordesk.tasks.workflows.runs import with_budget

    settings = checked().settings
    if account not in (None, settings.account):
        raise UsageError(
            f"a model is asked about {settings.account}, and not about {account}",
            remedy=f"leave --account out, or ask a desk with DESK_ACCOUNT={account}",
        )
    question = cleaned(text)
    app = reached(settings)
    asked = AskRequest(kind="ask", by=person_of(whoami()), question=question, dialogue=dialogue, origin=TERMINAL)
    run = asked.open(app, with_budget(budget))
    entry_id = str(run.params["entry"])
    thread = dialogue or entry_id
    later = f"desk ask --in {thread[:SHORT_ID]}"
    if not as_json:
        typer.echo(f"the clerk looks it up: run {run.id[:SHORT_ID]}, dialogue {thread[:SHORT_ID]}", err=True)
    if not wait:
        emit({"run_id": run.id, "id": entry_id, "dialogue": thread}, lambda _: f"see it with: {later}", as_json=as_json)
        return thread, 0
    try:
        follow(app, run, quiet=as_json or not sys.stdout.isatty())
    except KeyboardInterrupt:
        typer.echo(f"the run continues; see its answer with: {later}", err=True)
        return thread, INTERRUPTED
    with app.desk.store.read() as session:
        found = entry_view(session, session.get_one(AskingEntry, entry_id))
    emit(found, entry_shown, as_json=as_json)
    return thread, 0 if found.state == "answered" else 1
