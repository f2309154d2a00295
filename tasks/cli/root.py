"""The command `desk` as Typer parses it, whole or with as much of it as a command line needs, and the outline of its
subcommands by module, so that its help loads none of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from chordesk.models import features
from chordesk.models.errors import UsageError
from chordesk.models.features import Command
from chordesk.tasks.cli import options
from chordesk.tasks.cli.version import line

# The subcommands of `desk --help` by panel, each with its module and the first sentence of its own help, so that
# help loads none of them.
PANELS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "setup": ("setup.command", "Choose a model and a market, and write them into `.env`."),
        "up": ("up", "Start the desk's processes; Ctrl-C stops all of them."),
        "screen": ("start", "Screen a universe, research it, and let the trader decide."),
        "research": ("start", "Research symbols, or the account's holdings."),
        "analyze": ("start", "Analyse symbols, and propose a put or a covered call."),
        "trade": ("start", "Let the trader decide on the verdicts of an earlier run."),
        "stop": ("runs", "Stop runs, and wait until nothing of them runs any more."),
    },
    "Look": {
        "page": ("page", "Open the page; over SSH only print its link."),
        "status": ("health", "Show workers, queues, running turns and what is stuck."),
        "changes": ("changes", "Show what changed since you looked: runs, orders, ratings, money."),
        "watch": ("runs", "Show a run's events, or live those of the whole desk."),
        "runs": ("runs", "List runs and show their results."),
        "report": ("runs", "Report on a run, a day or a symbol: HTML, markdown, JSON."),
        "threads": ("threads", "Threads that roles keep from one run to the next."),
    },
    "Decide": {
        "approvals": ("orders", "List what waits for a person: orders, and requests of runs."),
        "approve": ("orders", "Let an order, or what a run asks for, go ahead."),
        "deny": ("orders", "Refuse an order, or what a run asks for."),
        "close": ("start", "Close one position: an order that passes the desk's checks."),
        "halt": ("halt", "Stop trading of every account at once."),
        "resume": ("halt", "Let this shell's account trade again."),
        "orders": ("orders", "What was recommended, and what became of it."),
        "audit": ("orders", "The log of every order: append-only, hash-chained, anchored."),
        "risk": ("orders", "The rules that every order passes before it is sent."),
        "reconcile": ("orders", "Compare positions, orders, fills and cash with the broker."),
        "arm": ("arm", "Sign a mandate: real money within limits, for some hours."),
        "disarm": ("arm", "Take a mandate back, at once."),
        "mandate": ("arm", "Show the mandate in force and what is left of it."),
    },
    "Measure": {
        "lens": ("lens", "Lenses of screens: the desk's, and your own in files."),
    },
    "Operate": {
        "login": ("login", "Log in with a ChatGPT account, for the desk and for ChatCodex."),
        "logout": ("login", "Log out of the ChatGPT account."),
        "doctor": ("health", "Check everything the desk needs before it starts."),
        "unpark": ("unpark", "Let parked models be asked again before their limit's time."),
        "config": ("health", "Show every setting: its value, its owner, its source."),
        "data": ("upkeep", "Own data: a folder of bars, headlines and chains."),
        "db": ("upkeep", "The database and its migrations."),
        "gc": ("upkeep", "Delete what is older than the settings keep."),
        "backup": ("upkeep", "Back the desk up as of one point in time while it works."),
        "restore": ("upkeep", "Restore a backup into an empty place, and verify it."),
        "schedule": ("schedule", "Runs that start by themselves, at a time of each exchange day."),
        "worker": ("processes", "Run one worker in the foreground."),
        "beat": ("processes", "Run the schedule in the foreground."),
        "flower": ("processes", "Run Flower on loopback: a web page about the queues."),
        "rulebook": ("processes", "Serve the rulebook model on loopback: rules, no model."),
        "ping": ("processes", "Check that a worker of this host answers."),
    },
    "Extend": {
        "api": ("processes", "Serve the desk over HTTP, with live events."),
        "tokens": ("tokens", "Named tokens of people and programs for the service."),
        "mcp": ("processes", "Offer the desk's read tools over MCP; none submits orders."),
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
    app = _root()
    wanted = names or tuple(COMMANDS)
    modules = {COMMANDS[name].module: name for name in wanted}  # once, if it has several of them
    for module, name in modules.items():
        commands: typer.Typer = features.part("commands", name, module, kind="commands").commands
        own = [one for one in wanted if COMMANDS[one].module == module]
        if not module.startswith("chordesk."):
            options.require_commands(commands, own)
        app.add_typer(options.with_features(commands, own))
    return app


def outline() -> typer.Typer:
    """Return the command with the names and purposes of its subcommands and nothing behind them."""
    app = _root()
    for name, command in COMMANDS.items():
        app.command(name, help=command.purpose, rich_help_panel=command.panel)(_nothing)
    return app


def command_for(arguments: Sequence[str]) -> typer.Typer:
    """Return the command with what a command line needs; one that names no subcommand gets help or an error."""
    features.require_known()
    name = next((each for each in arguments if not each.startswith("-")), None)
    if name not in COMMANDS:
        if name is not None and (feature := features.switched_off("commands", name)) is not None:
            reason = f"desk {name} is of the feature {feature}, which is switched off"
            raise UsageError(reason, remedy=f"take {feature} out of {features.OFF}")
        if name is not None:
            features.require_in_force("commands", name)
        if name is not None and (packages := ", ".join(features.packages_off())):
            reason = f"there is no command {name!r}, but a package that is switched off may have it: {packages}"
            raise UsageError(reason, remedy=f"take it out of {features.OFF}, or see `desk --help`")
        return outline()
    from chordesk.tasks.worker import log_format

    log_format.quiet()  # a process that lives long sets its own
    return build(name)


def _nothing() -> None:
    """Do nothing: an outline is never run."""


class _Commands(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except TyperException as caught:
            error: Any = caught
            error.message += " It may be of a package that is not installed, or is left out (`desk doctor`)."
            raise

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:  # pydantic's words, by which the parser checks choices
            error.message = error.message.removeprefix("Value error, ")
            raise


def _root() -> typer.Typer:
    app = typer.Typer(
        name="desk",
        cls=_Commands,
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
