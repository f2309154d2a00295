"""`desk status`: the current state of the desk on one screen."""

from __future__ import annotations

import typer

from models.settings.sources import load_settings
from tasks.cli.output import emit
from tasks.cli.render.status import status_report
from tasks.cli.shell import Json
from tasks.views.status import status

commands = typer.Typer()


@commands.command("status")
def show(as_json: Json = False) -> None:
    """Show workers, app-servers, queues, running turns, parked models, the oldest step and the last sweep."""
    emit(status(load_settings()), status_report, as_json=as_json)
