"""`desk threads`: which thread each role goes on in, what was said in one, and forks of an earlier turn."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated

import typer

from models.columns import utcnow
from models.errors import CodexError
from models.setting_sources import load_settings
from models.store import require_current
from tasks.bootstrap import Desk
from tasks.cli.output import console, print_json
from tasks.cli.render import said
from tasks.cli.render_threads import thread_list, thread_report
from tasks.threads.handling import ask, fork, registered, reset
from tasks.threads.overview import find_thread, threads, view
from tasks.threads.retention import collect

NAME = "threads"  # of the home that forks are made in
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Thread = Annotated[str, typer.Argument(help="A thread's id, or at least 6 characters of its beginning or end.")]


def register(app: typer.Typer) -> None:
    commands = typer.Typer(help="Threads that are kept from one run to the next.", no_args_is_help=True)
    commands.command("list")(list_threads)
    commands.command("show")(show)
    commands.command("reset")(reset_thread)
    commands.command("fork")(fork_thread)
    commands.command("ask")(ask_fork)
    commands.command("gc")(gc)
    app.add_typer(commands, name="threads")


def list_threads(
    role: Annotated[str | None, typer.Option(help="Only this role's.")] = None,
    limit: Annotated[int, typer.Option(help="How many, the last used first.", min=1, max=1000)] = 50,
    as_json: Json = False,
) -> None:
    """List threads: those that roles go on in, then those of the past."""
    with _desk() as desk:
        found = registered(desk)
        with desk.store.read() as session:
            rows = threads(session, found, limit, role)
    if as_json:
        print_json([row.model_dump(mode="json") for row in rows])
    elif not rows:
        console().print("no threads are kept yet; a run keeps some")
    else:
        console().print(thread_list(rows))


def show(thread: Thread, as_json: Json = False) -> None:
    """Show a thread's turns: role, run, time, tokens, outcome, and the first line of what was said."""
    with _desk() as desk:
        found = registered(desk)
        with desk.store.read() as session:
            seen = view(session, found, desk.vault, find_thread(session, thread))
    if as_json:
        print_json(seen.model_dump(mode="json"))
    else:
        console().print(thread_report(seen))


def reset_thread(thread: Thread) -> None:
    """Have the role and subject of a thread start afresh with their next turn. What was said is kept."""
    with _desk() as desk:
        one = reset(desk, _named(desk, thread))
    console().print(f"{one.role} starts afresh on {one.subject}", markup=False, highlight=False)


def fork_thread(
    thread: Thread,
    before_turn: Annotated[int, typer.Option(help="Number of the turn to go another way at; see `show`.", min=1)],
    model: Annotated[str | None, typer.Option(help="Whom the fork's turns are asked of.")] = None,
    as_json: Json = False,
) -> None:
    """Fork a thread before one of its turns: a thread of its own, whose parent does not notice."""
    with _desk() as desk:
        made = fork(desk, _named(desk, thread), before_turn, model)
    if as_json:
        fields = ("thread_id", "parent_id", "role", "subject", "model", "turns")
        print_json({name: getattr(made, name) for name in fields})
        return
    out = console()
    out.print(
        f"thread {made.thread_id}: {made.turns} turns of {made.parent_id}, asked of {made.model}", highlight=False
    )
    out.print(f"go on in it with: desk threads ask {made.thread_id} TEXT", markup=False, highlight=False)


def ask_fork(thread: Thread, text: Annotated[str, typer.Argument(help="What to ask.")], as_json: Json = False) -> None:
    """Ask on in a fork: one turn, with the role's tools and the shape of its answers. No order comes of it."""
    with _desk() as desk:
        result = ask(desk, _named(desk, thread), text)
    if result.failure is not None:
        raise CodexError(f"the turn {result.status}: {result.failure.kind}: {result.failure.message}")
    if as_json:
        tokens = result.usage.total_tokens
        answer = {"turn_id": result.turn_id, "text": result.text, "refusal": result.refusal, "tokens": tokens}
        print_json({"thread_id": result.thread_id, **answer})
        return
    told = f"declined: {result.refusal}" if result.refusal is not None else result.text
    console().print(said(told, 20_000), markup=False, highlight=False, soft_wrap=True)


def gc(as_json: Json = False) -> None:
    """Delete old copies of rollouts, and forget threads that were not used for long. Maintenance does so daily."""
    with _desk() as desk:
        done = collect(desk, utcnow())
    told = {"threads": done.threads, "rollouts": done.rollouts, "blobs": done.blobs, "busy": done.busy}
    if as_json:
        print_json(told)
    else:
        console().print(
            f"{done.threads} threads forgotten, {done.rollouts} copies and {done.blobs} blobs deleted"
            + (f"; {done.busy} threads are in use" if done.busy else ""),
            highlight=False,
        )


def _named(desk: Desk, part: str) -> str:
    with desk.store.read() as session:
        return find_thread(session, part)


@contextlib.contextmanager
def _desk() -> Iterator[Desk]:
    settings = load_settings()
    require_current(settings.database)
    with contextlib.closing(Desk(settings, NAME)) as desk:
        yield desk
