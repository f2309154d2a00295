"""`desk status`: what the desk is doing now, on one screen."""

from __future__ import annotations

from typing import Annotated

import typer

from models.setting_sources import load_settings
from tasks.cli.output import console, print_json
from tasks.cli.render_status import status_report
from tasks.status import status


def register(app: typer.Typer) -> None:
    app.command("status")(show)


def show(as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False) -> None:
    """Workers, app-servers, queues, turns in flight, parked models, the oldest step, the last sweep."""
    found = status(load_settings())
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    console().print(status_report(found))
