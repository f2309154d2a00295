"""`desk checkup SYMBOL`."""

from __future__ import annotations

from typing import Annotated

import typer

from chordesk.plugins import Json, Wait, connected, see

commands = typer.Typer()


@commands.command()
def checkup(
    symbol: Annotated[str, typer.Argument(help="The symbol to ask about.")], wait: Wait = True, as_json: Json = False
) -> None:
    """Ask for a note on one symbol's range."""
    from .workflow import open_checkup

    app = connected()
    see(app, open_checkup(app, symbol), wait=wait, as_json=as_json)
