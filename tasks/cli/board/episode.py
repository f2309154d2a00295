"""`desk episode`: tools first, then voices that forecast questions by citing what the tools found."""

from __future__ import annotations

from typing import Annotated

import typer

from chordesk.models.errors import UsageError
from chordesk.tasks.cli.shell import Json
from chordesk.tasks.cli.start import Wait, connected, see
from chordesk.tasks.workflows.episode.opening import open_episode

commands = typer.Typer()


@commands.command()
def episode(
    symbols: Annotated[
        list[str] | None,
        typer.Argument(
            help="Symbols to ask about; the candidates of the latest screen and the holdings by default, else what "
            "moved most."
        ),
    ] = None,
    questions: Annotated[
        list[str] | None, typer.Option(help="Ids of open questions, by comma; the desk chooses them by default.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="1 is blind; 2 by default, then all positions are shown.")] = None,
    wait: Wait = True,
    as_json: Json = False,
) -> None:
    """Hold an episode: harvest every tool's signals, let the voices forecast questions by them, and tally."""
    app = connected()
    run = open_episode(app, symbols or (), _parts(questions), rounds)
    see(app, run, wait=wait, as_json=as_json)


def _parts(named: list[str] | None) -> list[str]:
    """Return ids given by comma. Raises UsageError where the option was given and has none."""
    found = [part.strip() for item in named or [] for part in item.split(",") if part.strip()]
    if named and not found:
        raise UsageError("--questions names no question", remedy="leave it out, and the desk chooses them")
    return found
