"""`desk demo`: the whole desk once, on real prices, with no account, key or network; nothing is left running."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

commands = typer.Typer()


@commands.command("demo")
def run(
    home: Annotated[Path, typer.Option(help="The demo's own folder; wiped at the start.")] = Path(".demo"),
    live: Annotated[bool, typer.Option("--live", help="Fill the orders on the paper account.")] = False,
    with_page: Annotated[
        bool, typer.Option("--page", help="Leave the desk up with its page until Ctrl-C; without the sample.")
    ] = False,
    sample: Annotated[
        Path | None,
        typer.Option(help="Folder of `desk data import msft-chain`: look for a put on its real option chain, too."),
    ] = None,
) -> None:
    """Show the whole desk at work on real prices, then stop it.

    Screen the S&P 500, research, decide, analyse three, and hold a round of voices. DESK_REPLAY_DATE, DESK_UNIVERSE
    and DESK_PROTECT are taken over; no other setting is.
    """
    from chordesk.tasks.cli.demo_run import play  # it loads the desk

    raise typer.Exit(play(home, live, with_page, sample))
