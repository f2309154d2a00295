"""The command `desk` as Typer parses it, whole or with as much of it as a command line needs, and the outline of its
subcommands by module, so that its help loads none of them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Annotated

import typer

from chordesk.models import features
from chordesk.models.features import Command
from chordesk.tasks.cli.version import line

# The subcommands of `desk --help` by panel, each with its module and the first sentence of its own help, so that
# help loads none of them.
PANELS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "setup": (
            "setup.command",
            "Choose the model and the market, try them with one turn, and write them into `.env`.",
        ),
        "up": (
            "up",
            "Start Redis, the rulebook model, the workers, the schedule and Flower; Ctrl-C stops all of them.",
        ),
        "screen": ("start", "Screen a universe, research the candidates, and let the trader decide."),
        "research": (
            "start",
            "Research the symbols you name, or the account's holdings; the run ends with their verdicts.",
        ),
        "analyze": (
            "start",
            "Analyse symbols: chart, options, research, a synthesis by code, and a proposed put or covered call.",
        ),
        "trade": ("start", "Let the trader decide on the verdicts of an earlier run."),
        "backtest": (
            "start",
            "Let the whole desk play past sessions on an account of its own, and compare it with the universe itself.",
        ),
        "stop": (
            "runs",
            "Stop runs: interrupt their turns, submit none of their orders, and wait until nothing of them runs"
            " any more.",
        ),
    },
    "Look": {
        "page": ("page", "Open the page; over SSH only print its link."),
        "status": (
            "health",
            "Show workers, app-servers, queues, running turns, parked models, the oldest step and the last "
            "sweep; exit code 1 when a part of the desk does not answer.",
        ),
        "watch": (
            "runs",
            "Show a run's past events, then its live ones; without a run, all live events of the desk.",
        ),
        "runs": ("runs", "List runs and show their results."),
        "report": (
            "reports",
            "Make a report of a run, a day or a symbol: HTML with its charts in it, markdown or JSON.",
        ),
        "threads": ("threads", "Threads that roles keep from one run to the next."),
    },
    "Decide": {
        "approvals": (
            "orders",
            "List what waits for a person: orders, and what models ask for in the middle of a turn.",
        ),
        "approve": (
            "orders",
            "Let an order go to the broker, as it was previewed, or a model do what it asks for.",
        ),
        "deny": ("orders", "Refuse an order or a model's request."),
        "halt": (
            "halt",
            "Stop trading of every account at once: no order is submitted any more, those that wait are denied;"
            " open ones of this shell's broker are cancelled.",
        ),
        "resume": ("halt", "Let this shell's account trade again; others stay as they are."),
        "orders": ("orders", "What was recommended, and what became of it."),
        "audit": ("orders", "The log of every order: append-only, hash-chained, anchored."),
        "risk": ("risk", "The rules that every order passes before it is sent."),
        "reconcile": (
            "reconcile",
            "Compare positions, open orders, fills and cash with the broker; exit code 1 when they differ.",
        ),
        "arm": ("arm", "Sign a mandate: let a broker with real money take orders, within limits, for some hours."),
        "disarm": ("arm", "Take a mandate back, at once."),
        "mandate": ("arm", "Show the mandate in force and what is left of it; exit code 1 when there is none."),
    },
    "Measure": {},
    "Operate": {
        "doctor": ("health", "Check everything the desk needs before it starts; exit code 1 when a check fails."),
        "config": ("config", "Show every setting, its value, its owner and where it came from."),
        "data": ("stored_data", "Own data: a folder of bars, headlines and chains."),
        "db": ("stored_data", "The database and its migrations."),
        "gc": (
            "upkeep",
            "Delete what is older than the settings keep: runs, events, rollouts, pictures; never what an order"
            " or a score rests on. A desk at work does so by itself, and may go on meanwhile.",
        ),
        "backup": (
            "upkeep",
            "Back the desk up as of one point in time while it works: database, audit log, HALT file, pictures,"
            " rollouts.",
        ),
        "restore": (
            "upkeep",
            "Restore a backup into an empty place and verify it; the desk there is halted until a person resumes it.",
        ),
        "worker": ("processes", "Run one worker in the foreground."),
        "beat": ("processes", "Run the schedule in the foreground; a second one waits for the lock of the first."),
        "flower": ("processes", "Run Flower on loopback: a web page about the queues, and their metrics."),
        "rulebook": (
            "processes",
            "Serve the rulebook model on loopback: fixed rules behind a Responses API, no model.",
        ),
        "ping": ("processes", "Check that a worker of this host answers; exit code 1 when none does."),
    },
    "Extend": {
        "api": ("serving", "Serve the desk over HTTP: runs, threads, orders, approvals, stop, and live events."),
        "mcp": ("serving", "Offer the desk's read tools over the Model Context Protocol; none submits an order."),
    },
}
_COMMANDS = features.added(
    {
        name: Command(f"chordesk.tasks.cli.{module}", panel, purpose)
        for panel, commands in PANELS.items()
        for name, (module, purpose) in commands.items()
    },
    "commands",
)
COMMANDS = {  # the panels in their order, those of packages last
    name: command
    for panel in dict.fromkeys((*PANELS, *(command.panel for command in _COMMANDS.values())))
    for name, command in _COMMANDS.items()
    if command.panel == panel
}


def build(*names: str) -> typer.Typer:
    """Return the command with the modules of these subcommands, or with all of them."""
    app = _root()
    for module in dict.fromkeys(COMMANDS[name].module for name in names or COMMANDS):
        app.add_typer(importlib.import_module(module).commands)
    return app


def outline() -> typer.Typer:
    """Return the command with the names and purposes of its subcommands and nothing behind them."""
    app = _root()
    for name, command in COMMANDS.items():
        app.command(name, help=command.purpose, rich_help_panel=command.panel)(_nothing)
    return app


def command_for(arguments: Sequence[str]) -> typer.Typer:
    """Return the command with what a command line needs; one that names no subcommand gets help or an error."""
    name = next((each for each in arguments if not each.startswith("-")), None)
    if name not in COMMANDS:
        return outline()
    from chordesk.tasks.worker import logs

    logs.quiet()  # a process that lives long sets its own
    return build(name)


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
