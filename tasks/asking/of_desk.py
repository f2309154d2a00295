"""How the desk stands: runs, what waits, what changed, the schedule, scores, settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import snapshot
from chordesk.models.settings.variables import PREFIX
from chordesk.models.text import SHORT_ID, one_line
from chordesk.tasks.approval_requests import WaitingOrder, waiting
from chordesk.tasks.asking.answers import MOST, Answer, Answering, Desk, listed, order_source, run_source
from chordesk.tasks.asking.of_money import found_run
from chordesk.tasks.asking.questions import EXAMPLES, Question
from chordesk.tasks.reading.chain import order_label
from chordesk.tasks.reading.changes import changes, last_close, summary
from chordesk.tools.decimals import plain


def status(desk: Desk, question: Question) -> Answer:
    from chordesk.models.settings.running_desk import is_up
    from chordesk.tasks.reading.desk_status import database_state

    with desk.store.read() as session:
        state, waits = database_state(session, desk.settings), waiting(session)
    up = is_up(desk.settings.home)
    work = ", ".join(f"{count} {name}" for name, count in state.runs.items()) or "none in work"
    trading = f"{state.trading}{f', {state.why}' if state.why else ''}"
    lines = [f"a desk {'runs' if up else 'does not run'} on this home; {desk.account}: {trading}"]
    lines.append(f"runs: {work}; {len(waits)} wait{'s' if len(waits) == 1 else ''} for you; sweep: {state.sweep}")
    if state.equity is not None:
        equity = f"equity {state.equity.equity:,.2f} {desk.settings.currency}"
        lines.append(f"{equity}, {state.equity.change:+,.2f} on {state.equity.day}")
    lines += [f"halted: {one}" for one in state.halts]
    lines += [f"without its stop: {plain(one.quantity)} {one.symbol}, {one.why}" for one in state.unprotected]
    facts = {"runs": state.runs, "waiting": len(waits), "trading": str(state.trading), "up": up}
    missing = ["workers and queues: `desk status` asks them"]
    return Answer(question=question.text, intent="status", text="\n".join(lines), facts=facts, missing=missing)


def what_changed(desk: Desk, question: Question) -> Answer:
    since = desk.since(question) or last_close(desk.settings, desk.now)
    with desk.store.read() as session:
        found = changes(session, desk.settings, desk.account, since, 1000)
    rows = [one for one in found.changes if not question.symbols or one.subject in question.symbols]
    lines = [summary(found, desk.time(since))]
    lines += [f"{desk.time(one.at)}: {one_line(one.text, 200)}" for one in rows[: 2 * MOST]]
    sources = [order_source(one.order_id) for one in rows[:MOST] if one.order_id]
    sources += [run_source(one.run_id) for one in rows[:MOST] if one.run_id and not one.order_id]
    facts = {
        "counts": found.counts,
        "equity_before": found.equity_before,
        "equity": found.equity,
        "tokens": found.tokens,
    }
    return Answer(
        question=question.text, intent="changes", text=listed(lines, len(rows) - 2 * MOST), facts=facts,
        sources=list({one.id: one for one in sources}.values()),
    )  # fmt: skip


def who_waits(desk: Desk, question: Question) -> Answer:
    with desk.store.read() as session:
        found = waiting(session)
    lines, sources = [], []
    for one in found:
        until = desk.time(one.approval.expires_at)
        if isinstance(one, WaitingOrder):
            why = f": {one_line(one.why, 160)}" if one.why else ""
            lines.append(
                f"{order_label(one.order)}, {one.approval.notional:,.2f} {desk.settings.currency}, until {until}{why}"
            )
            sources.append(order_source(one.order.id))
        else:
            lines.append(f"{one_line(one.what, 200)}, until {until}")
            sources.append(run_source(one.approval.run_id))
    text = "\n".join(lines) or "nothing waits for you"
    return Answer(question=question.text, intent="waiting", text=text, facts={"waiting": len(found)}, sources=sources)


def runs(desk: Desk, question: Question) -> Answer:
    from chordesk.tasks.reading.run_details import outcome
    from chordesk.tasks.reading.run_list import RunFilter, run_page

    most = question.count or 5
    wanted = RunFilter(symbol=question.symbols[0] if question.symbols else None, backtests=False, with_children=False)
    with desk.store.read() as session:
        page = run_page(session, desk.settings, wanted, most)
        lines = [
            f"{one.run.id[:SHORT_ID]} {desk.time(one.run.created_at)}: {outcome(session, one.run)}" for one in page.runs
        ]
    return Answer(
        question=question.text, intent="runs", text=listed(lines, page.total - len(lines)) or "no run yet",
        facts={"runs": page.total}, sources=[run_source(one.run.id) for one in page.runs],
    )  # fmt: skip


def one_run(desk: Desk, question: Question) -> Answer:
    """Return what a run did: the named one, else the newest of the kind that is named."""
    from chordesk.tasks.engine.budgets import cost_of
    from chordesk.tasks.engine.kinds import run_kinds
    from chordesk.tasks.reading.run_details import outcome
    from chordesk.tasks.reading.runs import newest_run

    with desk.store.read() as session:
        kind = next((kind for kind in run_kinds() if question.says(kind)), None)
        run = found_run(session, question.ids[0]) if question.ids else newest_run(session, kind)
        text = f"{run.id[:SHORT_ID]}, a {run.kind}, {run.state}, {desk.time(run.created_at)}: {outcome(session, run)}"
        cost = cost_of(session, desk.settings, run.id)
    lines = [text, f"cost: {cost}", *(f"note: {note}" for note in run.notes[:3])]
    facts = {"state": run.state, "kind": run.kind, "summary": run.summary}
    return Answer(
        question=question.text, intent="run", text="\n".join(lines), facts=facts, sources=[run_source(run.id)]
    )


def compare(desk: Desk, question: Question) -> Answer:
    from chordesk.tasks.reading.run_list import comparison

    with desk.store.read() as session:
        ours, theirs = (found_run(session, part) for part in question.ids[:2])
        found = comparison(session, desk.settings, ours, theirs)
    differ = [one for one in found.candidates if one.changed and one.ours is not None and one.theirs is not None]
    names = ours.id[:SHORT_ID], theirs.id[:SHORT_ID]
    lines = [
        f"{name} has {row.candidates} candidates" for name, row in zip(names, (found.ours, found.theirs), strict=True)
    ]
    for name, only in zip(names, (found.only_ours, found.only_theirs), strict=True):
        if only:
            lines.append(
                f"only {name}: {', '.join(only[:20])}{f' and {len(only) - 20} more' if len(only) > 20 else ''}"
            )
    lines += [
        f"{one.symbol}: {one.ours} ({one.ours_confidence}) / {one.theirs} ({one.theirs_confidence})"
        for one in differ[:MOST]
    ]
    lines += [
        f"{PREFIX}{one.name.upper()}: {one_line(str(one.ours), 60)} / {one_line(str(one.theirs), 60)}"
        for one in found.settings[:MOST]
    ]
    facts: dict[str, Any] = {"only_ours": found.only_ours, "only_theirs": found.only_theirs}
    facts["tokens"] = [found.ours.tokens, found.theirs.tokens]
    sources = [run_source(ours.id), run_source(theirs.id)]
    return Answer(question=question.text, intent="compare", text="\n".join(lines), facts=facts, sources=sources)


def schedule(desk: Desk, question: Question) -> Answer:
    from chordesk.tasks.schedules import entries, starting

    with desk.store.read() as session:
        every, due = entries(session, desk.settings), starting(session, desk.settings, desk.now)
    lines = [f"{one.name}: a {one.kind} at {desk.time(at)}" for one, at in due]
    lines += [
        f"{one.name}: {one.kind} at {one.at}, off{f': {one.lack}' if one.lack else ''}"
        for one in every
        if not one.starts
    ]
    text = "\n".join(lines) or "nothing is scheduled"
    return Answer(question=question.text, intent="schedule", text=text, facts={"entries": len(every), "next": len(due)})


_KINDS = {"voice": "voice", "tool": "tool", "lens": "lens", "role": "role", "rating": "rating", "verdict": "rating",
          "thesis": "thesis", "theses": "thesis"}  # fmt: skip


def scores(desk: Desk, question: Question) -> Answer:
    from chordesk.tasks.reading.scores import kept_scores

    kind: Any = next((kind for word, kind in _KINDS.items() if question.says(word, f"{word}s", f"{word}es")), None)
    board = kept_scores(desk.store, desk.account, desk.settings.model_cutoffs, kind)
    named = [row for row in board.rows if row.name.lower() in question.words or row.name in question.text]
    rows = named or board.rows
    lines = [
        f"{row.kind} {row.name}: Brier {_estimate(row.brier)}, against its baseline {_estimate(row.alpha)}, "
        f"{row.forecasts} forecasts"
        for row in rows[: 2 * MOST]
    ]
    missing = [board.lacking] if board.lacking else []
    facts = {
        "rows": [
            {"kind": row.kind, "name": row.name, "forecasts": row.forecasts, "brier": row.brier.mean} for row in rows
        ]
    }
    text = listed(lines, len(rows) - 2 * MOST) or (board.lacking or "nothing is scored yet")
    return Answer(question=question.text, intent="scores", text=text, facts=facts, missing=missing)


def _estimate(found: Any) -> str:
    between = f" ({found.low:.3f} to {found.high:.3f})" if found.low is not None and found.high is not None else ""
    return f"{found.mean:.4f}{between}, n {found.n}"


def setting(desk: Desk, question: Question) -> Answer:
    """Return settings by name, without secrets."""
    from chordesk.tasks.reading.setting_values import shown

    fields = Settings.model_fields
    names = [one.removeprefix(PREFIX).lower() for one in question.settings]
    names = [name for name in names if name in fields] or [name for name in fields if name in question.words]
    names = names or [name for name in fields if name.replace("_", " ") in question.text.lower() and "_" in name]
    if not names:
        known = snapshot(desk.settings)
        raise UsageError(
            "no setting is named", remedy=f"name one of the {len(known)} of `desk config`, such as DESK_PROTECT"
        )
    values = {
        f"{PREFIX}{name.upper()}": shown(name, getattr(desk.settings, name), desk.settings) for name in names[:MOST]
    }
    helped = {name: fields[name.removeprefix(PREFIX).lower()].description or "" for name in values}
    lines = [
        f"{name}: {'not set' if value in (None, '') else value}. {one_line(helped[name], 160)}"
        for name, value in values.items()
    ]
    return Answer(question=question.text, intent="setting", text="\n".join(lines), facts=values)


def alerts(desk: Desk, question: Question) -> Answer:
    """Return what alerts have fired: features note it."""
    since = desk.since(question) or last_close(desk.settings, desk.now)
    with desk.store.read() as session:
        found = [
            one for one in changes(session, desk.settings, desk.account, since, 1000).changes if one.kind == "notice"
        ]
    text = (
        "\n".join(f"{desk.time(one.at)}: {one.text}" for one in found[:MOST])
        or f"nothing fired since {desk.time(since)}"
    )
    return Answer(question=question.text, intent="alerts", text=text, facts={"fired": len(found)})


def what_to_ask(desk: Desk, question: Question) -> Answer:
    return Answer(question=question.text, intent="help", text="Ask such as:\n" + "\n".join(EXAMPLES))


ANSWERS: Mapping[str, Answering] = {
    "status": status, "changes": what_changed, "waiting": who_waits, "runs": runs, "run": one_run, "compare": compare,
    "schedule": schedule, "scores": scores, "setting": setting, "alerts": alerts, "help": what_to_ask,
}  # fmt: skip
