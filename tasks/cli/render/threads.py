"""Terminal output of threads. Pure: data in, rich renderables out; everything fits 80 columns where it can."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chordesk.tasks.cli.output import paragraph, table
from chordesk.tasks.cli.render.runs import SHORT_ID
from chordesk.tasks.cli.render.spending import tokens
from chordesk.tasks.threads import ThreadRow, ThreadView, TurnLine

LINE = 100  # characters of a message's first line


def thread_list(rows: Sequence[ThreadRow]) -> Table:
    columns = ("Thread", "Role", "Subject", "State", "Turns", "Gen.", "Used (UTC)", "Why")
    return table(columns, [_listed(row) for row in rows])


def thread_report(view: ThreadView) -> RenderableType:
    thread = view.thread
    head = [
        f"thread {thread.thread_id} of {thread.role}, {_state(thread)}",
        f"subject {thread.subject}",
        f"model {thread.model} | started {_when(thread.created_at)} | {thread.reason}"
        + (f" | owner {thread.owner}" if thread.owner else ""),
    ]
    if thread.parent_id is not None:
        head.append(f"forked from {thread.parent_id}" + (f" before {thread.before_turn}" if thread.before_turn else ""))
    if view.forks:
        head.append(f"forks {', '.join(view.forks)}")
    if view.missing is not None:
        head.append(f"prompts are not shown: {view.missing}")
    lines = [Text(paragraph(one, 300), overflow="fold") for one in head]
    return Group(*lines, Text(), *(_turn(line) for line in view.turns))


def _turn(line: TurnLine) -> Text:
    seconds = f"{line.seconds:.1f} s" if line.seconds is not None else "time unknown"
    run = f"run {line.run_id}" if line.run_id is not None else "no run"
    when = _when(line.started_at) if line.started_at is not None else "?"
    head = f"{line.ordinal:>3}  {when}  {line.role}  {run}  {seconds}  {tokens(line.tokens)}  {line.outcome}"
    text = [f"     > {paragraph(line.prompt, LINE)}" if line.prompt else "     > (prompt not kept)"]
    text.append(f"     < {paragraph(line.answer, LINE)}" if line.answer else "     < (no answer)")
    return Text("\n".join([head, *text]))


def _listed(row: ThreadRow) -> tuple[str, ...]:
    used = row.updated_at or row.created_at
    turns = "" if row.turns is None else str(row.turns)
    generation = "" if row.generation is None else str(row.generation)
    # The end of an id is distinctive: its beginning is its time.
    return (
        row.thread_id[-SHORT_ID:], row.role, row.subject.rpartition("/")[2], _state(row), turns, generation,
        _when(used), row.reason,
    )  # fmt: skip


def _state(row: ThreadRow) -> str:
    if row.busy:
        return "busy"
    return "current" if row.current else "past"


def _when(at: dt.datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"
