"""`desk up`: the embedded services and the workers, in the foreground until stopped."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from chordesk.models import home
from chordesk.models.errors import DeskError, ServiceError
from chordesk.models.settings.running_desk import standing_of
from chordesk.models.settings.sources import load
from chordesk.models.urls import masked
from chordesk.tasks.cli import standard_output
from chordesk.tasks.cli.output import console, print_line, relative, table, warn
from chordesk.tasks.cli.shell import standing_line

if TYPE_CHECKING:
    from chordesk.models.settings import Settings
    from chordesk.models.shortages import Shortage
    from chordesk.tasks.cli.answering import Answering
    from chordesk.tasks.life import Life
    from chordesk.tasks.services.plan import Plan
    from chordesk.tasks.services.stack import Stack
    from chordesk.tasks.services.supervision import Process

WATCH_SECONDS = 1.0
REVIVE_SECONDS = 15.0
RESTART_SECONDS = 2.0

commands = typer.Typer()


@commands.command()
def up(
    workers: Annotated[int, typer.Option(help="Research workers.", min=1, max=32)] = 1,
    beat: Annotated[bool, typer.Option(help="Start the schedule.")] = True,
    flower: Annotated[bool, typer.Option("--flower", help="Start Flower, the queue's web page.")] = False,
    api: Annotated[bool, typer.Option("--api", help="Start the service for programs (`desk api`) as well.")] = False,
    with_page: Annotated[bool, typer.Option("--page", help="Serve the page too (as --api), and open it.")] = False,
) -> None:
    """Start the desk's processes; Ctrl-C stops all of them.

    Redis, the rulebook model, the workers and the schedule.
    """
    from chordesk.tasks.cli import page
    from chordesk.tasks.services import plan, stop_signals
    from chordesk.tasks.services.plan import Choice

    out = console()
    loaded = load(join=False)
    warn(loaded.warnings)
    made = plan.make(loaded, os.environ, Path.cwd(), Choice(workers, beat, flower, api or with_page))
    with stop_signals.raised():
        try:
            out.print(f"starting the desk on {made.folders.home} ...", highlight=False)
            out.print(standing_line(standing_of(made.settings)))
            _keep_up(out, made, lambda: page.offer(made.settings) if with_page else None)
        except stop_signals.StopRequested as stop:
            out.print(f"stopped ({stop})")


def _keep_up(out: Console, made: Plan, once_up: Callable[[], None]) -> None:
    from chordesk.tasks.cli.answering import Answering
    from chordesk.tasks.services.stack import desk_stack

    standard_output.not_needed()
    was_up, said = False, ""
    while True:
        try:
            with desk_stack(made, print_line) as stack:
                shown = show(out, stack)
                if not was_up:
                    once_up()
                was_up, said = True, ""
                with Answering(made.settings.home) as answering:
                    _watch(stack, answering, shown)
        except (DeskError, OSError) as error:
            if not was_up:
                raise
            if (line := f"{error}; the desk is started again") != said:  # without room it is so every 2 s
                print_line(line)
            said = line
            time.sleep(RESTART_SECONDS)


def show(out: Console, stack: Stack) -> list[Process]:
    """Print the table of programs, and return them as they were then."""
    from chordesk.tasks.services.supervision import log_file

    made, now = stack.plan, stack.poll()
    if stack.left_over:
        out.print(f"ended {len(stack.left_over)} processes that an earlier run had left")
    where = {program.name: program.where for program in made.programs}
    rows = [
        (each.name, each.state.lower(), str(each.pid), where[each.name], relative(log_file(each.name, made.folders)))
        for each in now
    ]
    out.print(table(("Program", "State", "Pid", "Where", "Log"), [*_outside(made), *rows]))
    out.print(standing_line(standing_of(made.settings)))
    out.print("Ctrl-C stops all", highlight=False)
    return now


def _outside(made: Plan) -> list[tuple[str, str, str, str, str]]:
    given = made.settings.redis_url
    if "redis_url" in made.urls or given is None:
        return []
    return [("redis", "outside", "", masked(given.get_secret_value()), "")]


def _watch(stack: Stack, answering: Answering, began: Sequence[Process]) -> None:
    """Report programs that died or came back and what is short, and restart those that supervisord gave up on, until a
    signal comes. began: the programs as they were shown."""
    from chordesk.models.shortages import shortages

    before = {each.name: each for each in began}
    running = {name: each.pid for name, each in before.items()}
    short: dict[str, Shortage] = {}
    ill: dict[str, Life] = {}
    revived = time.monotonic()
    while True:
        time.sleep(WATCH_SECONDS)
        was, short = short, {one.key: one for one in shortages(stack.plan.settings)}
        for line in room_changes(was, short):
            print_line(line)
        where = stack.plan.folders.home
        if home.why_away(where) is not None:
            continue  # supervisord's socket and the logs are in that folder
        if stack.identity is not None and home.put_back_as_copy(where, stack.identity):
            raise ServiceError(f"a copy is in the place of the data folder {where}: what is open is of the old one")
        ill_before, ill = ill, frozen(stack.plan.settings)
        for line in life_changes(ill_before, ill):
            print_line(line)
        try:
            now = {each.name: each for each in stack.poll()}
        except ServiceError:
            if not stack.supervised():
                raise
            continue  # without a file left to open, say
        for name, each in now.items():
            if (changed := change(running[name], before[name], each)) is not None:
                print_line(changed)
            if each.state == "RUNNING":
                running[name] = each.pid
        before = now
        again = any(one.out for one in was.values()) and not any(one.out for one in short.values())
        if again or time.monotonic() - revived > REVIVE_SECONDS:
            revived = time.monotonic()
            stack.revive()
            answering.revive()


# Shortages whose line says already what they do, and what is said when they are over.
_SAY_ALL = {"soundness": "the database is sound again", "home": "the data folder is back: the desk goes on"}


def room_changes(was: Mapping[str, Shortage], now: Mapping[str, Shortage]) -> Iterator[str]:
    """Yield a line for each resource that became short, shorter than a bound, or is short no more."""
    for key, one in now.items():
        if key not in was or was[key].out != one.out:
            until = "; no step is taken until there is room" if one.out and one.what not in _SAY_ALL else ""
            yield f"{one}{until}"
    for key, one in was.items():
        if key not in now:
            yield _SAY_ALL.get(one.what, f"room again: {one.name}")


def frozen(settings: Settings) -> dict[str, Life]:
    """Return the processes that exist and do not get on; those that died are supervisord's to report."""
    from chordesk.tasks import life

    found = life.of_desk(settings)
    return {one.called: one for one in found if one.state in (life.State.FROZEN, life.State.UNREACHABLE)}


def life_changes(was: Mapping[str, Life], now: Mapping[str, Life]) -> Iterator[str]:
    for name, one in now.items():
        if name not in was:
            yield f"{name}: {one}"
    for name in was:
        if name not in now:
            yield f"{name}: {was[name].state.value} no more"


def change(running: int, before: Process, now: Process) -> str | None:
    """Return a line about a program that died, gave up or came back. running: the pid with which it last ran."""
    if now.state == "RUNNING":
        return f"{now.name}: running again as process {now.pid}" if now.pid != running else None
    if now.state != before.state and now.state != "STARTING":
        return f"{now.name}: {now.state.lower()} ({now.message})"
    return None
