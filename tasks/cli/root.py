"""The command `desk` as Typer parses it: whole, or with as much of it as a command line needs."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Annotated

import typer

from chordesk.tasks.cli.outline import MODULES
from chordesk.tasks.cli.services.version import line


def build(*modules: str) -> typer.Typer:
    """Return the command with the subcommands of these modules, or with all of them."""
    app = _root()
    for module in modules or MODULES:
        app.add_typer(importlib.import_module(f"chordesk.tasks.cli.{module}").commands)
    return app


def outline() -> typer.Typer:
    """Return the command with the names and purposes of its subcommands and nothing behind them."""
    app = _root()
    for commands in MODULES.values():
        for name, purpose in commands.items():
            app.command(name, help=purpose)(_nothing)
    return app


def command_for(arguments: Sequence[str]) -> typer.Typer:
    """Return the command with what a command line needs; one that names no subcommand gets help or an error."""
    name = next((each for each in arguments if not each.startswith("-")), None)
    module = next((module for module, commands in MODULES.items() if name in commands), None)
    if module is None:
        return outline()
    from chordesk.tasks.worker import logs

    logs.quiet()  # a process that lives long sets its own
    return build(module)


def _nothing() -> None:
    """Do nothing: an outline is never run."""


def _root() -> typer.Typer:
    app = typer.Typer(
        name="desk",
        help="A trading desk on a job queue: screens, research and trades, run by workers.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(line())
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print name, version and schema revision, and end.", is_eager=True, callback=_version
        ),
    ] = False,
) -> None:
    """Options of the command itself."""
