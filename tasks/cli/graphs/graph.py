"""`desk graph`: play a LangGraph graph as a run of the desk, and follow it to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from chordesk.models.errors import UsageError
from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.cli.shell import Json
from chordesk.tasks.cli.start import Wait, connected, see
from chordesk.tasks.views.run_view import find_run
from chordesk.tasks.workflows.graph import open_graphs, resume_graphs

commands = typer.Typer()


@commands.command()
def graph(
    factory: Annotated[str | None, typer.Argument(help="MODULE:FACTORY; the module is listed in DESK_GRAPHS.")] = None,
    given: Annotated[
        list[str] | None, typer.Option("--input", help="JSON object, or @FILE; repeat the option for a graph each.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="In place of both: a run, whose failed graphs go on where they were.")
    ] = None,
    wait: Wait = True,
    as_json: Json = False,
) -> None:
    """Play a LangGraph graph as durable work: each of its model calls is a turn, and it goes on where it was."""
    if resume is not None:
        if factory or given:
            raise UsageError("--resume goes with no factory and no --input", remedy="the run has both")
        app = connected()
        with desk_of(app).store.read() as session:
            source = find_run(session, resume).id
        see(app, resume_graphs(app, source), wait=wait, as_json=as_json)
        return
    if not (factory and given):
        missing = "no --input is given" if factory else "no MODULE:FACTORY is given"
        raise UsageError(missing, remedy="""write desk graph MODULE:FACTORY --input '{"n": 1}'""")
    inputs = {str(number): _object(text) for number, text in enumerate(given, 1)}
    app = connected()
    see(app, open_graphs(app, factory, inputs), wait=wait, as_json=as_json)


def _object(given: str) -> dict[str, Any]:
    """Return the object of JSON or @FILE. Raises UsageError."""
    text, place = given, "--input"
    if given.startswith("@"):
        place = f"--input {given}"
        try:
            text = Path(given[1:]).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{place} cannot be read: {error}", remedy="name a file of JSON after @") from None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        remedy = """give a JSON object, such as '{"ticker": "IBM"}', or @FILE"""
        raise UsageError(f"{place} is no JSON: {error}", remedy=remedy) from None
    if not isinstance(value, dict):
        raise UsageError(f"{place} is no object but {text:.80}", remedy="""give a JSON object, such as '{"n": 1}'""")
    return value
