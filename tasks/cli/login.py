"""`desk login` and `desk logout`, by the Codex binary that the desk brings, for the desk and for `ChatCodex`."""

from __future__ import annotations

from typing import Annotated

import typer

from chordesk.models.settings.sources import load

commands = typer.Typer()


@commands.command()
def login(
    device_auth: Annotated[
        bool, typer.Option("--device-auth", help="By a code that any browser takes, where this host has none.")
    ] = False,
) -> None:
    """Log in with a ChatGPT account, for the desk and for ChatCodex."""
    _run("login", *(["--device-auth"] if device_auth else []))


@commands.command()
def logout() -> None:
    """Log out of the ChatGPT account."""
    _run("logout")


def _run(*arguments: str) -> None:
    from chordesk.tasks.bootstrap import run_codex

    raise typer.Exit(run_codex(load().settings, *arguments).returncode)
