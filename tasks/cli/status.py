"""`desk status`: the current state of the desk on one screen."""

from __future__ import annotations

import typer

from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.render.status import status_report
from chordesk.tasks.cli.shell import Json, checked
from chordesk.tasks.views.status import status

NO_ANSWER = 1

commands = typer.Typer()


@commands.command("status")
def show(as_json: Json = False) -> None:
    """Show workers, app-servers, queues, running turns, parked models, the oldest step and the last sweep; exit code 1
    when a part of the desk does not answer."""
    loaded = checked()
    found = status(loaded.settings, running=loaded.running)
    emit(found, status_report, as_json=as_json)
    if found.trouble:
        raise typer.Exit(NO_ANSWER)
