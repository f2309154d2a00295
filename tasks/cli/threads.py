"""`desk threads`: the current thread of each role, the turns of a thread, and forks of an earlier turn."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from chordesk.models.errors import CodexError, NothingYet
from chordesk.tasks.cli.output import emit, paragraph, print_line
from chordesk.tasks.cli.shell import Json, last, looks, opened

if TYPE_CHECKING:
    from chordesk.tasks.bootstrap import Desk

NAME = "threads"  # of the home that forks are made in
Thread = Annotated[str, typer.Argument(help="A thread's id, or at least 6 characters of its beginning or end.")]

commands = typer.Typer(name="threads", help="Threads that roles keep from one run to the next.", no_args_is_help=True)


@commands.command("list")
@looks("no threads yet", answered=False)
def list_threads(
    role: Annotated[str | None, typer.Option(help="Only this role's.")] = None,
    limit: Annotated[int, typer.Option(help="How many, the last used first.", min=1, max=1000)] = 50,
    as_json: Json = False,
) -> None:
    """List the current threads of roles, then past ones."""
    from chordesk.tasks.cli.show.status_display import thread_list
    from chordesk.tasks.reading.thread_history import threads
    from chordesk.tasks.thread_actions import registered

    with _desk() as desk:
        found = registered(desk)
        with desk.store.read() as session:
            rows = threads(session, found, limit, role)
    nothing = "no threads are kept yet; a run keeps some"
    emit(rows, lambda _: thread_list(rows) if rows else nothing, as_json=as_json)


@commands.command()
@looks("no threads yet", as_json="null", answered=False)
def show(
    thread: Annotated[
        str | None, typer.Argument(help="As a thread is named for `fork`; else the one that was used last.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a thread with a line for each turn.

    A line has role, run, time, tokens, outcome, and the first line of prompt and answer.
    """
    from chordesk.tasks.cli.show.status_display import thread_report
    from chordesk.tasks.reading.thread_history import find_thread, thread_detail, threads
    from chordesk.tasks.thread_actions import registered

    with _desk() as desk:
        found = registered(desk)
        with desk.store.read() as session:
            if thread is None:
                used = threads(session, found, 1)
                if not used:
                    raise NothingYet("no threads are kept yet", remedy="a run keeps some")
                id_ = last("thread", used[0].thread.thread_id)
            else:
                id_ = find_thread(session, thread)
            seen = thread_detail(session, found, desk.vault, id_)
    emit(seen, thread_report, as_json=as_json)


@commands.command("reset")
def reset_thread(thread: Thread) -> None:
    """Let a role start a new thread with its next turn; the history is kept."""
    from chordesk.tasks.thread_actions import reset

    with _desk() as desk:
        one = reset(desk, _named(desk, thread))
    print_line(f"{one.role} starts a new thread on {one.subject}")


@commands.command("fork")
def fork_thread(
    thread: Thread,
    before_turn: Annotated[int, typer.Option(help="Number of the first turn that is not copied; see `show`.", min=1)],
    model: Annotated[str | None, typer.Option(help="Model of the fork's turns; the parent's by default.")] = None,
    as_json: Json = False,
) -> None:
    """Fork a thread before one of its turns; the parent stays as it is."""
    from chordesk.tasks.thread_actions import fork

    with _desk() as desk:
        made = fork(desk, _named(desk, thread), before_turn, model)
    turns = "1 turn" if made.turns == 1 else f"{made.turns} turns"
    text = f"thread {made.thread_id}: {turns} of {made.parent_id}, model {made.model}"
    hint = f"continue it with: desk threads ask {made.thread_id} TEXT"
    emit(made, lambda _: f"{text}\n{hint}", as_json=as_json)


@commands.command("ask")
def ask_fork(thread: Thread, text: Annotated[str, typer.Argument(help="The question.")], as_json: Json = False) -> None:
    """Ask a question in a fork: one turn that leads to no order.

    The role's tools and answer format are used.
    """
    from chordesk.tasks.thread_actions import ask

    with _desk() as desk:
        result = ask(desk, _named(desk, thread), text)
    if result.failure is not None:
        raise CodexError(f"the turn {result.status}: {result.failure.kind}: {result.failure.message}")
    answer = {name: getattr(result, name) for name in ("thread_id", "turn_id", "text", "refusal")}
    text = f"declined: {result.refusal}" if result.refusal is not None else result.text
    emit({**answer, "tokens": result.usage.total_tokens}, lambda _: paragraph(text, 20_000), as_json=as_json)


def _named(desk: Desk, part: str) -> str:
    from chordesk.tasks.reading.thread_history import find_thread

    with desk.store.read() as session:
        return find_thread(session, part)


@contextlib.contextmanager
def _desk() -> Iterator[Desk]:
    from chordesk.tasks.bootstrap import Desk

    with contextlib.closing(Desk(opened()[0], NAME)) as desk:
        yield desk
