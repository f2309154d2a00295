"""Terminal output of runs: progress, the closing table, the actions. Pure: data in, rich renderables out.

Everything fits 80 columns. A model's text is cut to a few lines; all of it is in --json.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from chordesk.models.database.blobs import removal_note
from chordesk.models.exchanges import at_exchange
from chordesk.models.groups import by_key
from chordesk.models.money import coded
from chordesk.models.states import DocumentState, OrderState, RunKind, RunState, StepKind
from chordesk.models.text import SHORT_ID, inert, span
from chordesk.tasks.cli.output import Indented, bounded, facts, paragraph, state, table, tally
from chordesk.tasks.cli.shell import standing_line
from chordesk.tasks.cli.show import amount_text
from chordesk.tasks.cli.show.amount_text import count_text, units_text
from chordesk.tasks.cli.show.results import analyses_report, portfolio_research
from chordesk.tasks.engine import kinds

if TYPE_CHECKING:
    from chordesk.models.tables.runs import Run, RunDocumentCopy, Step
    from chordesk.models.tables.runtime import RuntimeConversation
    from chordesk.tasks.reading.desk_status import DatabaseState
    from chordesk.tasks.reading.run_details import ArtifactRow, TimelineAttempt, TimelineStep
    from chordesk.tasks.reading.run_list import RunRow
    from chordesk.tasks.reading.runs import ActionRow, CandidateRow, Portfolio, Progress, RunView

_MOST_ARTIFACTS = 12
_GROUPS = (("entry", "Entry"), ("exit", "Exit"), ("monitor", "Monitor"))


def _titled(seen: Progress) -> list[tuple[str, int, int]]:
    """Title, ended steps and all steps of each kind that has a title, in the order of a run."""
    return [(spec.title, *seen.steps[spec.kind]) for spec in kinds.steps() if spec.title and spec.kind in seen.steps]


def progress_line(seen: Progress) -> str:
    phases = [f"{title} {done}/{total}" for title, done, total in _titled(seen)]
    if (left := seconds_left(seen)) is not None:
        return f"{' | '.join(phases)} | about {span(left)} left | turns {seen.turns} | tokens {seen.tokens}"
    parts = [
        " | ".join(phases) or "queued",
        *([f"candidates {tally(seen.candidates, 'none yet')}"] if _has_candidates(seen) else []),
    ]
    turns = f"turns {seen.turns} (+{in_flight(seen)})"
    return " | ".join([*parts, turns, f"tokens {seen.tokens}"])


PHASES = {
    "waiting": "waiting for a first token",
    "reasoning": "reasoning",
    "writing": "writing",
    "tools": "waiting for a tool",
}


def in_flight(seen: Progress) -> str:
    slow = ", ".join(f"{count} {PHASES.get(phase, phase)}" for phase, count in seen.phases.items())
    return f"{seen.turns_in_flight} in flight" + (f": {slow}" if slow else "")


def _has_candidates(seen: Progress) -> bool:
    """Return whether there are candidates, or may be some later: an episode has none, nor has a run of graphs."""
    return bool(seen.candidates) or seen.kind not in (RunKind.EPISODE, RunKind.GRAPH)


def seconds_left(seen: Progress) -> float | None:
    """How long a backtest will still take at its pace so far; None for another run, or before its first session."""
    done, total = seen.steps.get(StepKind.BACKTEST_SESSION, (0, 0))
    return seen.seconds / done * (total - done) if done else None


def progress_panel(seen: Progress) -> RenderableType:
    """Return phases, candidates by state, turns in flight, tokens and elapsed time, for a view that is redrawn."""
    pairs: list[tuple[str, str | Text]] = [
        (title, Text.assemble(_bar(done, total), f" {done}/{total}")) for title, done, total in _titled(seen)
    ]
    left = seconds_left(seen)
    if left is not None:
        pairs.append(("left", f"about {span(left)}"))
    elif _has_candidates(seen):
        pairs.append(("candidates", _phases(seen.candidates)))
    pairs += [("waits for", Text(str(one).removeprefix("waits for "), style="yellow")) for one in seen.waits]
    pairs += [
        ("turns", f"{seen.turns} done, {in_flight(seen)}"),
        ("tokens", f"{seen.tokens:,}"),
        ("elapsed", f"{seen.seconds:.1f} s{'' if seen.begun else ', not started yet'}"),
    ]
    title = f"{seen.kind} {seen.run_id[:SHORT_ID]} {seen.state}"
    return Panel(facts(pairs), title=title, subtitle=seen.model, title_align="left", subtitle_align="left", width=78)


_BAR = 28  # signs


def _bar(done: int, total: int) -> Text:
    filled = int(_BAR * done / total) if total else 0
    return Text.assemble(("█" * filled, "green"), ("░" * (_BAR - filled), "dim"))


def _phases(candidates: dict[str, int]) -> Text:
    parts = [state(name, f"{name} {count}  ") for name, count in candidates.items()]
    return Text.assemble(*parts) if parts else Text("none yet")


def run_list(runs: Sequence[RunRow]) -> Table:
    return table(_RUN_COLUMNS, [row.run for row in runs], narrow="Model")


_RUN_COLUMNS: dict[str, Callable[[Run], str | Text]] = {
    "Run": lambda run: run.id[:SHORT_ID],
    "Kind": lambda run: run.kind,
    "State": lambda run: state(run.state),
    "Started (UTC)": lambda run: f"{run.created_at:%Y-%m-%d %H:%M}",
    "Market": lambda run: f"{run.market} {run.market_now:%Y-%m-%d}",
    "Model": lambda run: run.model,
    "Verdicts": lambda run: tally(run.summary.get("verdicts", {}), "-"),
}


def run_report(run: RunView, home: Path | None = None) -> RenderableType:
    """home: the data folder of this shell; without it paths of pictures are relative."""
    # Why a run came to nothing is the first thing to know of it.
    failed = [Text(paragraph(run.notes[0]), style="red")] if run.state == RunState.FAILED and run.notes else []
    parts: list[RenderableType] = [*failed, _headline(run), *(Text(line) for line in amount_text.figures(run.summary))]
    if run.candidates:
        parts += ["", _candidates(run), *_reasons(run.candidates)]
    parts += [Text(f"missing {line}", style="dim") for line in _missing(run.candidates)]
    parts += [Text(f"note: {paragraph(note)}", style="dim") for note in run.notes[len(failed) :]]
    if run.portfolio_research:
        parts += ["", portfolio_research(run.portfolio_research)]
    if run.analyses:
        parts.append(analyses_report(run.analyses, home))
    for part in shown_parts(run, "run"):
        parts += ["", part]
    if run.decision:
        parts += ["", Text.assemble((f"{_decider(run)}: ", "bold"), f"{run.decision}. {paragraph(run.reasoning)}")]
        parts += _actions(run.actions)
    if run.decision and run.summary:
        parts += ["", _gate(run)]
    parts += [Text(line, style="yellow") for line in _waiting(run.actions)]
    if run.portfolio:
        parts += ["", _portfolio(run, run.portfolio)]
    return Group(*parts)


def shown_parts(found: RunView | DatabaseState, where: str) -> list[RenderableType]:
    """Return what features show of a run or of the status."""
    from chordesk.tasks.reading.run_parts import given

    made = (part.call(part.shown.text, value) for part, value in given(found, where) if part.shown.text)
    return [one for one in made if one is not None]


def artifacts_report(rows: Sequence[ArtifactRow], home: Path) -> RenderableType | None:
    """Subject, role, tool and file of each picture. home: of this shell; a worker on another machine has its own."""
    if not rows:
        return None
    parts = [Text.assemble(("Pictures ", "bold"), f"in the data folder, {home}:")]
    return Group(*parts, *bounded(rows, _MOST_ARTIFACTS, partial(_artifact, home)))


def _artifact(home: Path, row: ArtifactRow) -> Text:
    note = removal_note(home, row.path)
    shown = f"  {inert(row.subject)} {row.role}: {row.tool}, {row.size / 1024:.0f} KB\n{row.path}"
    return Text.assemble(shown, (f"\n  {note}" if note is not None else "", "dim"))


def _headline(run: RunView) -> Text:
    figures = run.summary
    seconds = f" in {figures['seconds']:.1f} s" if figures else ""
    spent = f"{figures['turns']} turns, {figures['tokens']:,} tokens, " if figures else ""
    return Text.assemble(
        ("Run ", "bold"),
        run.run_id,
        f": {run.kind} ",
        state(run.state),
        f"{seconds}\n{spent}model {run.model}{_role_models(run)}\n",
        f"{run.market} market at {at_exchange(run.market_now, run.standing.exchange)}, account {run.account}\n",
        standing_line(run.standing),
    )


def _decider(run: RunView) -> str:
    from chordesk.tasks.reading.chain import by_code

    return f"Trader ({run.decided_by})" if not by_code(run.decided_by) else f"Orders ({run.decided_by})"


def _role_models(run: RunView) -> str:
    roles = by_key((model, role) for role, model in run.role_models.items())
    return "".join(f"; {model} for {', '.join(names)}" for model, names in roles.items())


def _candidates(run: RunView) -> Table:
    of = f" of run {run.source_run[:SHORT_ID]}" if run.source_run else ""
    return table(_CANDIDATES, run.candidates, f"Verdicts{of}, model {run.judged_by}", right=("Tools", "Tokens"))


_CANDIDATES: dict[str, Callable[[CandidateRow], str | Text]] = {
    "Symbol": lambda row: row.symbol,
    "Screeners": lambda row: ", ".join(row.screeners) or row.origin,
    "Hit conf.": lambda row: row.confidence or "-",
    "Verdict": lambda row: state(row.verdict),
    "Conf.": lambda row: _judged(row),
    "Tools": lambda row: str(sum(row.tools.values())),
    "Tokens": lambda row: _count(row.tokens),
}


def _judged(row: CandidateRow) -> str:
    """Return a verdict's confidence, and the probability that it turned out to have."""
    odds = f" {row.verdict_probability:.0%}" if row.verdict_probability is not None else ""
    return f"{row.verdict_confidence or '-'}{odds}"


def _count(tokens: int | None) -> str:
    return f"{tokens:,}" if tokens is not None else "?"


def _reasons(rows: Sequence[CandidateRow]) -> Iterable[Text]:
    """Return the rule of each verdict, each rule once with its symbols."""
    found = by_key(((row.verdict, row.why), row.symbol) for row in rows if row.verdict is not None and row.why)
    return (
        Text.assemble(state(verdict), (f" {paragraph(', '.join(symbols))}: {paragraph(why)}", "dim"))
        for (verdict, why), symbols in found.items()
    )


def _missing(rows: Sequence[CandidateRow]) -> Iterable[str]:
    """Return the reports that verdicts lack, each reason once with its count."""
    counts = Counter(paragraph(entry) for row in rows for entry in row.missing)
    judged = sum(row.verdict is not None for row in rows)
    return (f"{entry}: {count} of {judged} verdicts" for entry, count in counts.most_common())


def _actions(actions: Sequence[ActionRow]) -> Iterable[RenderableType]:
    for key, title in _GROUPS:
        rows = [row for row in actions if row.group == key]
        if rows:
            yield Text(f"\n{title}", style="bold")
        for row in rows:
            yield from _action(row)


def _action(row: ActionRow) -> Iterable[RenderableType]:
    parts = [f"  {paragraph(row.symbol):<6} {row.action:<7}"]
    if size := _size(row):
        parts.append(f"{size}, ")
    yield Text.assemble(*parts, f"{row.confidence} confidence", *_state(row))
    if row.suppressed:
        yield Indented(Text(f"suppressed: {paragraph(row.suppressed)}", style="yellow"), 9)
    if row.protection:
        yield Indented(Text(f"a fill is protected: {row.protection}"), 9)
    yield Indented(Text(paragraph(row.reasoning), style="dim"), 9)


def _state(row: ActionRow) -> Iterable[str | Text]:
    if row.state:
        yield ", "
        yield state(row.state)


def _size(row: ActionRow) -> str:
    if row.action in ("hold", "watch"):
        return ""
    size = units_text(row.quantity, row.contract, row.legs, row.symbol) if row.quantity is not None else ""
    quantity = paragraph(size)
    notional = f"{row.notional:,.0f} notional" if row.notional is not None else ""
    return " ".join(part for part in (row.side or "", quantity or notional) if part)


def _gate(run: RunView) -> Text:
    orders = run.summary.get("orders", {})
    if run.summary.get("live"):
        gate = f"TRADER_LIVE=1, cleared orders go to the {run.account} account"
    else:
        gate = "live trading is off (TRADER_LIVE is not 1); previews are stored, nothing was submitted"
    denials = run.summary.get("denials", {})
    why = f" (denied: {tally(denials)})" if denials else ""
    return Text.assemble(("Gate: ", "bold"), f"{gate}: {tally(orders, 'no orders')}{why}")


def _waiting(actions: Sequence[ActionRow]) -> Iterable[str]:
    for row in actions:
        if row.state == OrderState.APPROVAL_PENDING and row.order_id is not None:
            yield f"{paragraph(row.symbol)} waits for you: desk approve {row.order_id}"


def _portfolio(run: RunView, found: Portfolio) -> RenderableType:
    columns, cash = ("Symbol", "Shares", "Average cost"), coded(f"{found.cash:,.2f}", found.currency)
    cells = [
        (row.symbol, count_text(row.quantity), coded(f"{row.average_cost:,.2f}", row.currency or found.currency))
        for row in found.positions
    ]
    head = Text.assemble(("Portfolio ", "bold"), f"of account {run.account} after the run: cash {cash}")
    shown = Indented(table(columns, cells, right=columns[1:]), 2) if cells else Text("  no positions")
    return Group(head, shown)


MOST_STEPS = 12


def attempts_report(steps: Sequence[TimelineStep]) -> RenderableType | None:
    """Return None when every step ended well at its first attempt; the whole list is in --json."""
    shown = [one for one in steps if not all(row.went_well for row in one.attempts)]
    if not shown:
        return None
    counts = Counter(row.outcome for one in steps for row in one.attempts)
    tally = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    head = Text.assemble(("Attempts ", "bold"), f"that did not go well, of {tally}")
    return Group(head, *bounded(shown, MOST_STEPS, _step, " steps"))


def _step(one: TimelineStep) -> RenderableType:
    step = one.step
    name = " ".join(part for part in (step.kind, step.role, step.subject) if part)
    return Group(Text(f"  {name}"), *(Indented(_attempt_line(step, row), 4) for row in one.attempts))


def _attempt_line(step: Step, row: TimelineAttempt) -> Text:
    from chordesk.models.tables.columns import utcnow

    reason = f": {paragraph(row.reason)}" if row.reason else ""
    seconds = ((row.ended_at or utcnow()) - row.started_at).total_seconds()
    return Text.assemble(
        f"{row.attempt} of {step.max_attempts}  ",
        state(row.outcome),
        f" after {seconds:.1f} s on {row.worker.partition(':')[0]}{reason}",
    )


MOST_CONVERSATIONS = 12


def conversations_report(rows: Sequence[RuntimeConversation]) -> RenderableType | None:
    """Return None when there were none; the whole list is in --json."""
    if not rows:
        return None
    running = [row for row in rows if row.active_turn_id is not None and row.closed_at is None]
    shown = running + [row for row in rows if row.kept and row not in running]
    threads = len({row.thread_id for row in rows})
    tally = f"{len(rows)} in {threads} threads, {len(running)} with a turn that runs now"
    head = Text.assemble(("Conversations ", "bold"), tally)
    return Group(head, *bounded(shown, MOST_CONVERSATIONS, _conversation_line))


def _conversation_line(row: RuntimeConversation) -> Text:
    name = inert(" ".join(part for part in (row.role, row.subject) if part))
    turn = f", turn {row.active_turn_id}" if row.active_turn_id is not None else ""
    return Text.assemble(f"  {name}  ", (f"{row.thread_reason}  ", "dim"), f"thread {row.thread_id}{turn}")


def document_line(found: RunDocumentCopy | None) -> Text | None:
    if found is None:
        return None
    if found.state == DocumentState.WRITTEN:
        return Text.assemble(("Report ", "bold"), inert(found.place))
    if found.error is None:
        return Text.assemble(("Report ", "bold"), f"due at {inert(found.place)}")
    again = f"; tried again {found.due_at:%H:%M:%S} UTC" if found.state == DocumentState.DUE else "; given up"
    why = f"not written after {found.tries} tries: {inert(found.error)}{again}"
    return Text.assemble(("Report ", "bold"), (why, "yellow"))
