"""`desk episode` and `desk board`: an episode of the forecasting board, and what is on a board."""

from __future__ import annotations

from typing import Annotated

import typer

from chordesk.models.errors import UsageError
from chordesk.models.states import RunKind
from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.shell import Json, opened, run_of
from chordesk.tasks.cli.start import Wait, connected, see

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
    """Let the voices forecast questions by all tools' signals.

    Harvest every tool's signals, let the voices forecast questions by them, and tally.
    """
    from chordesk.tasks.workflows.episode.opening import open_episode

    app = connected()
    run = open_episode(app, symbols or (), _parts(questions), rounds)
    see(app, run, wait=wait, as_json=as_json)


def _parts(named: list[str] | None) -> list[str]:
    """Return ids given by comma. Raises UsageError where the option was given and has none."""
    found = [part.strip() for item in named or [] for part in item.split(",") if part.strip()]
    if named and not found:
        raise UsageError("--questions names no question", remedy="leave it out, and the desk chooses them")
    return found


@commands.command()
def board(
    run: Annotated[
        str | None,
        typer.Argument(
            help="An episode, or a screen with rounds: its id or the beginning of it; else the last episode."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a run's board: questions, forecasts, voices, tally.

    With its signals, and the citations of each forecast.
    """
    from chordesk.tasks.cli.show.results import board_report
    from chordesk.tasks.reading.boards import board_view

    store = opened()[1]
    with store.read() as session:
        found = board_view(session, run_of(session, run, RunKind.EPISODE))
    emit(found, board_report, as_json=as_json)
