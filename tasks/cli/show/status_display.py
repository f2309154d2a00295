"""The desk on a terminal: its status, its events and its threads. Pure: data in, rich renderables out."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chordesk.models.events import DESK, Domain, Envelope
from chordesk.models.exchanges import clock_of, zone_of
from chordesk.models.money import coded
from chordesk.models.states import TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.text import SHORT_ID, span, utc
from chordesk.tasks.cli.output import paragraph, table, tally
from chordesk.tasks.cli.shell import desk_line, standing_line
from chordesk.tasks.cli.show.amount_text import tokens
from chordesk.tasks.cli.show.run_display import PHASES, shown_parts
from chordesk.tasks.engine.budgets import Reused
from chordesk.tasks.life import State
from chordesk.tools.risk.codes import shown

if TYPE_CHECKING:
    from chordesk.models.settings.running_desk import Standing
    from chordesk.models.shortages import Shortage
    from chordesk.tasks.life import Life
    from chordesk.tasks.reading.accounts import EquityNow
    from chordesk.tasks.reading.desk_status import DatabaseState, DeskStatus, RedisState, WorkerRow
    from chordesk.tasks.reading.thread_history import ThreadDetail, ThreadRow, ThreadTurn
    from chordesk.tasks.reading.troubles import HaltView
    from chordesk.tasks.schedules import BeatState


FIRST = ("database", "redis")  # all else follows from them
MOST_OF_HALT = 500  # characters: a reason may be long


def status_report(found: DeskStatus) -> RenderableType:
    """Return the status: a database or Redis that does not answer, the desk's standing, the other parts that do not
    answer or live, then those that do. Without a desk its absence comes first: it is why nothing answers."""
    first: list[RenderableType] = [_trouble(part, found) for part in FIRST if part in found.trouble]
    standing = desk_line(found.standing, found.home, running=found.running, held=found.held)
    is_there = found.running or found.held or found.processes
    parts = [*first, standing] if is_there else [standing, *first]
    if found.database is not None:
        parts += [_not_trading(one) for one in found.database.halts]
        parts.append(_equity(found.standing.account, found.database.equity))
    parts += [Text(str(one), style="bold yellow") for one in found.short]
    parts += [_trouble(part, found) for part in found.trouble if part not in FIRST]
    parts += _processes(found.processes)
    if found.workers:
        parts += _workers(found.workers, found.turns_in_flight, found.short)
    if found.redis is not None:
        parts += ["", *_redis(found.redis), *_beat(found.redis.beat, found)]
    for row in found.quotas:
        parts.append(Text(f"plan of {row.account}: {row.said} (told {_since(row.quota.at)} ago)"))
        parts += [Text(f"  {text}") for text in row.forecasts]
    if found.database is not None:
        parts += ["", *_database(found.database)]
    parts += [Text(f"run {run.run_id} ({run.kind}) {one}") for run in found.waiting for one in run.waits]
    return Group(*parts)


def _trouble(part: str, found: DeskStatus) -> Text:
    why = paragraph(found.trouble[part])
    lives = {one.called for one in found.processes if one.alarming}
    style = "bold red" if part in FIRST else "yellow"
    return Text(f"{part}: {why}" if part in lives else f"{part}: no answer ({why})", style=style)


def _processes(found: Sequence[Life]) -> list[Text]:
    """A line of those that run, and one for each of the others that is not said among the troubles."""
    runs = [one for one in found if one.state is State.RUNS and not one.why]
    parts = [Text(f"running: {', '.join(_grouped(runs))}")] if runs else []
    others = [one for one in found if one not in runs and not one.alarming]
    return [*parts, *(Text(f"{one.called}: {one}") for one in others)]


def _grouped(found: Sequence[Life]) -> list[str]:
    counts = Counter(f"{one.called} of {one.of}" if one.of else one.called for one in found)
    return [f"{count} {name}" if count > 1 else name for name, count in counts.items()]


def _since(at: dt.datetime) -> str:
    return span(max((utcnow() - at).total_seconds(), 0.0))


def _workers(workers: list[WorkerRow], turns: int, known: Sequence[Shortage]) -> list[RenderableType]:
    rows = [(one.node, str(one.pid), str(one.steps_held), f"{one.rss_mb:.0f} MB") for one in workers]
    parts: list[RenderableType] = [table(("Worker", "Pid", "Steps", "Memory"), rows)]
    parts += [Text(f"{one.node}: {paragraph(one.trouble)}", style="yellow") for one in workers if one.trouble]
    parts += [Text(f"{one.node}: {each}", style="yellow") for one in workers for each in one.short if each not in known]
    parts += [_own(one, one.standing) for one in workers if one.standing is not None and one.differs]
    servers = [
        (one.node, server.kind, str(server.pid), span(server.age), f"{server.in_flight}", f"{server.turns}",
         f"{server.rss_mb:.0f} MB")
        for one in workers
        for server in one.app_servers
    ]  # fmt: skip
    if servers:
        columns = ("App-server of", "Threads", "Pid", "Age", "In flight", "Turns", "Memory")
        parts += ["", table(columns, servers)]
    return [*parts, Text(f"turns in flight: {turns}")]


def _not_trading(found: HaltView) -> Text:
    style = "bold red" if found.state is TradingState.HALTED else "bold yellow"
    return Text(f"{paragraph(str(found), MOST_OF_HALT)}; `{found.resume}` lets it trade", style=style)


def _equity(account: str, found: EquityNow | None) -> Text:
    if found is None:
        return Text(f"account {account}: no equity is marked yet")
    equity = coded(f"{found.equity:,.2f}", found.currency)
    return Text(f"account {account}: equity {equity} as of {found.day}, {found.change:+,.2f} on the day")


def _own(one: WorkerRow, standing: Standing) -> Text:
    values = ", ".join(f"{name}={shown(value)}" for name, value in one.differs.items())
    return Text.assemble(f"{one.node} has other settings: ", standing_line(standing), (f"; {values}", "yellow"))


def _redis(found: RedisState) -> list[RenderableType]:
    parts: list[RenderableType] = [Text(f"queued: {tally(found.queued)}; held by workers: {found.held}")]
    if found.places:
        parts.append(Text(f"places taken: {tally(found.places)}"))
    if found.waiting:
        parts.append(Text(f"turns that wait for a place: {tally(found.waiting)}"))
    parts += [
        Text(
            f"parked: {one.model} for {span(one.seconds)}, until {utc(utcnow() + dt.timedelta(seconds=one.seconds))} "
            f"({paragraph(one.reason)})",
            style="yellow",
        )
        for one in found.parked
    ]
    return parts


def _beat(beat: BeatState, found: DeskStatus) -> list[Text]:
    if not beat.running:
        known = any(one.role == "beat" for one in found.processes)  # its own line says how it is
        return [] if known else [Text("no beat runs: nothing is scheduled; `desk up` starts one", style="yellow")]
    exchange, sent = found.standing.exchange, [one.name for one in beat.entries]
    if found.database is None:
        return [Text(f"scheduled: {', '.join(sent) or 'nothing'} (when is in the database, which does not answer)")]
    # Beat may look at an entry long before its start: the times are those of the schedule itself.
    starts = [(name, at) for name, at in found.database.starts.items() if name in sent]
    due = ", ".join(f"{name} {at.astimezone(zone_of(exchange)):%a %H:%M}" for name, at in starts)
    return [Text(f"scheduled, {clock_of(exchange)}: {due or 'nothing'}")]


def _database(found: DatabaseState) -> list[RenderableType]:
    parts: list[RenderableType] = [Text(f"runs: {tally(found.runs)}; steps: {tally(found.steps)}")]
    if found.phases:
        slow = ", ".join(f"{count} {PHASES.get(phase, phase)}" for phase, count in found.phases.items())
        parts.append(Text(f"turns that take long: {slow}"))
    if (oldest := found.oldest) is not None:
        step = oldest.step
        name = " ".join(part for part in (step.kind, step.role, step.subject) if part)
        held = f" on {step.owner.partition(':')[0]}" if step.owner else ""
        parts.append(
            Text(
                f"oldest unfinished step: {name}, {step.state}{held} for {span(oldest.seconds)}, "
                f"attempt {step.attempt} of {step.max_attempts}, run {step.run_id[:SHORT_ID]}"
            )
        )
        if step.error:
            parts.append(Text(f"  last failure: {paragraph(step.error)}", style="yellow"))
    last = found.sweep
    if last.seconds is not None:
        parts.append(Text(f"last sweep: {span(last.seconds)} ago, {tally(last.found)}"))
    if found.reused != Reused():
        parts.append(Text(f"counted again today: {found.reused}"))
    parts += [Text(str(one), style="yellow" if one.due else "") for one in found.plans]
    parts += [
        Text(f"without a stop: {one.quantity:g} {one.symbol} ({paragraph(one.why)})", style="yellow")
        for one in found.unprotected
    ]
    return [*parts, *shown_parts(found, "status")]


_COLOURS = {
    Domain.RUN: "bold",
    Domain.THREAD: "dim",
    Domain.TURN: "cyan",
    Domain.ITEM: "dim",
    Domain.TOOL: "blue",
    Domain.STATUS: "",
    Domain.ORDER: "green",
    Domain.APPROVAL: "yellow",
    Domain.ARTIFACT: "blue",
    Domain.DESK: "yellow",
}
_ILL = ("failed", "refused", "interrupted", "error", "expired")
# Fields that identify the subject come first, whatever order the payload has.
_FIRST = ("role", "kind", "subject", "symbol", "state", "outcome", "decision", "tool", "status", "type")
# Ids that only programs need; --json has them.
_LEFT_OUT = frozenset({"step", "order", "fill", "owner"})
RUN_CHARS, VALUE_CHARS = 14, 90


def event_line(one: Envelope, *, with_run: bool) -> Text:
    """Return local time, sequence, type and payload in a line. with_run: add the run's id, for several runs' events."""
    colour = "red" if one.type.value.endswith(_ILL) else _COLOURS.get(one.domain, "")
    which = f"{one.run_id if one.run_id == DESK else one.run_id[:RUN_CHARS]:<{RUN_CHARS}}  " if with_run else ""
    return Text.assemble(
        (f"{one.occurred_at.astimezone():%H:%M:%S}  ", "dim"),
        which,
        (f"{one.sequence if one.sequence is not None else '':>5}  ", "dim"),
        (f"{one.type.value:<18}", colour),
        _payload(one.payload),
        f"  ({one.type.note})" if one.type.note else "",
    )


def _payload(payload: dict[str, Any]) -> str:
    names = [name for name in _FIRST if name in payload]
    names += [name for name in payload if name not in _FIRST and name not in _LEFT_OUT]
    values = ((name, _value(payload[name])) for name in names)
    return " ".join(text if name in _FIRST else f"{name}={text}" for name, text in values if text)


def _value(value: Any) -> str:
    if value is None or value == "" or value == []:
        return ""
    return paragraph(str(value), VALUE_CHARS)


LINE = 100  # characters of a message's first line


def thread_list(rows: Sequence[ThreadRow]) -> Table:
    return table(_THREADS, rows)


# Of an id its end is distinctive: its beginning is its time.
_THREADS: dict[str, Callable[[ThreadRow], str]] = {
    "Thread": lambda row: row.thread.thread_id[-SHORT_ID:],
    "Role": lambda row: row.thread.role,
    "Subject": lambda row: row.thread.subject.rpartition("/")[2],
    "State": lambda row: _state(row),
    "Turns": lambda row: "" if row.turns is None else str(row.turns),
    "Gen.": lambda row: "" if row.generation is None else str(row.generation),
    "Used (UTC)": lambda row: _when(row.updated_at or row.thread.created_at),
    "Why": lambda row: row.thread.reason,
}


def thread_report(found: ThreadDetail) -> RenderableType:
    thread = found.thread
    head = [
        f"thread {thread.thread_id} of {thread.role}, {_state(found)}",
        f"subject {thread.subject}",
        f"model {thread.model} | started {_when(thread.created_at)} | {thread.reason}"
        + (f" | owner {found.owner or thread.worker}" if found.owner or thread.worker else ""),
    ]
    if thread.parent_id is not None:
        head.append(f"forked from {thread.parent_id}" + (f" before {thread.before_turn}" if thread.before_turn else ""))
    if found.forks:
        head.append(f"forks {', '.join(found.forks)}")
    if found.missing is not None:
        head.append(f"prompts are not shown: {found.missing}")
    lines = [Text(paragraph(one, 300), overflow="fold") for one in head]
    return Group(*lines, Text(), *(_turn(line) for line in found.lines))


def _turn(line: ThreadTurn) -> Text:
    seconds = f"{line.seconds:.1f} s" if line.seconds is not None else "time unknown"
    run = f"run {line.run_id}" if line.run_id is not None else "no run"
    when = _when(line.started_at) if line.started_at is not None else "?"
    head = f"{line.ordinal:>3}  {when}  {line.role}  {run}  {seconds}  {tokens(line.tokens)}  {line.outcome}"
    text = [f"     > {paragraph(line.prompt, LINE)}" if line.prompt else "     > (prompt not kept)"]
    text.append(f"     < {paragraph(line.answer, LINE)}" if line.answer else "     < (no answer)")
    return Text("\n".join([head, *text]))


def _state(row: ThreadRow) -> str:
    if row.busy:
        return "busy"
    return "current" if row.current else "past"


def _when(at: dt.datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"
