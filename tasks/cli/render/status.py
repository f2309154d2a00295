"""Terminal output of the desk's status. Pure: data in, rich renderables out."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.models.settings.running_desk import Standing
from chordesk.models.states import TradingState
from chordesk.tasks.cli.output import paragraph, table
from chordesk.tasks.cli.render.runs import PHASES, SHORT_ID
from chordesk.tasks.cli.render.standing import desk_line, standing_line
from chordesk.tasks.notifications.messages import NotificationsState
from chordesk.tasks.views.status import DatabaseState, DeskStatus, RedisState, WorkerRow
from chordesk.tasks.worker.schedule import BeatState
from chordesk.tools.market.clock import NEW_YORK
from chordesk.tools.risk.codes import shown

SWEEP_LATE_SECONDS = 30.0


def status_report(found: DeskStatus) -> RenderableType:
    """Return the status: the desk's standing, then the parts that do not answer, then the others."""
    parts: list[RenderableType] = [desk_line(found.standing, found.home, running=found.running, held=found.held)]
    if found.database is not None and found.database.trading is not TradingState.ACTIVE:
        parts.append(_not_trading(found.standing.account, found.database))
    parts += [Text(f"{part}: no answer ({paragraph(why)})", style="yellow") for part, why in found.trouble.items()]
    if found.workers:
        parts += _workers(found.workers, found.turns_in_flight)
    if found.redis is not None:
        parts += ["", *_redis(found.redis)]
    if found.database is not None:
        parts += ["", *_database(found.database)]
    return Group(*parts)


def _workers(workers: list[WorkerRow], turns: int) -> list[RenderableType]:
    rows = [(one.node, str(one.pid), str(one.steps_held), f"{one.rss_mb:.0f} MB") for one in workers]
    parts: list[RenderableType] = [table(("Worker", "Pid", "Steps", "Memory"), rows)]
    parts += [Text(f"{one.node}: {paragraph(one.trouble)}", style="yellow") for one in workers if one.trouble]
    parts += [_own(one, one.standing) for one in workers if one.standing is not None and one.differs]
    servers = [
        (one.node, server.kind, str(server.pid), _age(server.age), f"{server.in_flight}", f"{server.turns}",
         f"{server.rss_mb:.0f} MB")
        for one in workers
        for server in one.app_servers
    ]  # fmt: skip
    if servers:
        columns = ("App-server of", "Threads", "Pid", "Age", "In flight", "Turns", "Memory")
        parts += ["", table(columns, servers)]
    return [*parts, Text(f"turns in flight: {turns}")]


def _not_trading(account: str, found: DatabaseState) -> Text:
    """Return why an account sends nothing, or gives exposure back alone, whatever the live switch is."""
    state = "is halted" if found.trading is TradingState.HALTED else "gives exposure back only"
    return Text(f"account {account} {state}: {paragraph(found.why)}; `desk resume` lets it trade", style="bold yellow")


def _own(one: WorkerRow, standing: Standing) -> Text:
    """Return a line about a worker with other settings than this terminal's, which no `desk up` gave to both."""
    values = ", ".join(f"{name}={shown(value)}" for name, value in one.differs.items())
    return Text.assemble(f"{one.node} has other settings: ", standing_line(standing), (f"; {values}", "yellow"))


def _redis(found: RedisState) -> list[RenderableType]:
    parts: list[RenderableType] = [Text(f"queued: {_tally(found.queued)}; held by workers: {found.held}")]
    if found.places:
        parts.append(Text(f"places taken: {_tally(found.places)}"))
    if found.waiting:
        parts.append(Text(f"turns that wait for a place: {_tally(found.waiting)}"))
    parts += [
        Text(f"parked: {one.model} for {one.seconds:.0f} s ({paragraph(one.reason)})", style="yellow")
        for one in found.parked
    ]
    return [*parts, _beat(found.beat)]


def _beat(found: BeatState) -> Text:
    if not found.running:
        return Text("no beat runs: nothing is swept or scheduled; `desk up` starts one", style="yellow")
    due = ", ".join(f"{one.name} {one.next.astimezone(NEW_YORK):%a %H:%M}" for one in found.entries)
    return Text(f"scheduled, New York time: {due or 'nothing'}")


def _database(found: DatabaseState) -> list[RenderableType]:
    parts: list[RenderableType] = [Text(f"runs: {_tally(found.runs)}; steps: {_tally(found.steps)}")]
    if found.phases:
        slow = ", ".join(f"{count} {PHASES.get(phase, phase)}" for phase, count in found.phases.items())
        parts.append(Text(f"turns that take long: {slow}"))
    if (step := found.oldest) is not None:
        name = " ".join(part for part in (step.kind, step.role, step.subject) if part)
        held = f" on {step.owner.partition(':')[0]}" if step.owner else ""
        parts.append(
            Text(
                f"oldest unfinished step: {name}, {step.state}{held} for {_age(step.seconds)}, attempt {step.attempt} "
                f"of {step.max_attempts}, run {step.run_id[:SHORT_ID]}"
            )
        )
        if step.error:
            parts.append(Text(f"  last failure: {paragraph(step.error)}", style="yellow"))
    last = found.sweep
    if last.seconds is None:
        parts.append(Text("last sweep: none yet; is beat running?", style="yellow"))
    else:
        late = last.seconds > SWEEP_LATE_SECONDS
        hint = "; is beat running?" if late else ""
        style = "yellow" if late else ""
        parts.append(Text(f"last sweep: {last.seconds:.1f} s ago, {_tally(last.found)}{hint}", style=style))
    parts += [
        Text(f"without a stop: {one.quantity:g} {one.symbol} ({paragraph(one.why)})", style="yellow")
        for one in found.unprotected
    ]
    return [*parts, *_notifications(found.notifications)]


def _notifications(found: NotificationsState) -> list[RenderableType]:
    """Return what is wrong with notifications; nothing while each channel takes them."""
    if not found.channels:
        return []
    parts: list[RenderableType] = []
    if not found.sending:
        parts.append(Text(f"notifications: no process sends; {found.untaken} events wait", style="yellow"))
    for one in found.channels:
        if one.given_up or one.error:
            why = f" ({paragraph(one.error)})" if one.error else ""
            counts = f"{one.waiting} wait, {one.given_up} given up in 24 h"
            parts.append(Text(f"notifications to {one.name}: {counts}{why}", style="yellow"))
    return parts


def _tally(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
