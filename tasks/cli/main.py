"""Entry point of the command `desk`: collects the commands and turns errors into a line and an exit code."""

from __future__ import annotations

import gc
import importlib.metadata
from typing import Annotated

import typer

from models.errors import DeskError
from tasks.cli import config, runs, start, status, stdout, stop, threads, watch
from tasks.cli.orders import approvals, arm, audit, halt, orders, reconcile, risk
from tasks.cli.output import fail
from tasks.cli.services import api, db, demo, doctor, processes, up
from tasks.services.signals import StopRequested
from tasks.worker import logs

# Exit codes: 0 done, 1 the answer is no (a failed check or run), 2 wrong use or setting, 128+n stopped by signal n.
WRONG_USE = 2

# Those of one command first, as `desk --help` lists them.
NOUNS = (
    up, start, stop, watch, status, approvals, halt, reconcile, arm, demo, doctor, config, api, processes,
    runs, threads, orders, audit, risk, db,
)  # fmt: skip


def build() -> typer.Typer:
    """Return the command with all its subcommands."""
    app = typer.Typer(
        name="desk",
        help="A trading desk on a job queue: screens, research and trades, run by workers.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for noun in NOUNS:
        app.add_typer(noun.commands)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"chordesk {importlib.metadata.version('chordesk')}")
        except importlib.metadata.PackageNotFoundError:
            typer.echo("chordesk, not installed: run from its folder")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Options of the command itself."""


def main() -> None:
    logs.quiet()  # a process that lives long sets its own
    with stdout.watched():
        _run()


def _run() -> None:
    try:
        build()()
    except DeskError as error:
        raise SystemExit(fail(error, WRONG_USE)) from None
    except StopRequested as stop:
        raise SystemExit(128 + stop.number) from None
    finally:
        # A last look for garbage over all that was imported costs 0.4 s of CPU, in each of a desk's processes at once.
        gc.freeze()


if __name__ == "__main__":
    main()
