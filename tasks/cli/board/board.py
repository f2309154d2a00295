"""`desk board`: the signals, forecasts and citations of a run's board, and its tally."""

from __future__ import annotations

from typing import Annotated

import typer

from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.render.results.board import board_report
from chordesk.tasks.cli.shell import Json, opened
from chordesk.tasks.views.board.board_view import board_view
from chordesk.tasks.views.run_view import find_run

commands = typer.Typer()


@commands.command()
def board(
    run: Annotated[str, typer.Argument(help="The id of an episode, or of a screen with rounds, or its beginning.")],
    as_json: Json = False,
) -> None:
    """Show a run's board: signals, questions, forecasts with their citations, voices, and the tally."""
    store = opened()[1]
    with store.read() as session:
        found = board_view(session, find_run(session, run))
    emit(found, board_report, as_json=as_json)
