"""How the desk stands: runs, what waits, what changed, the schedule, scores, settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlmodel import col, select

from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import snapshot
from chordesk.models.settings.variables import PREFIX
from chordesk.models.tables.runs import Run
from chordesk.models.text import one_line
from chordesk.tasks.approval_requests import WaitingOrder, WaitingRequest, waiting
from chordesk.tasks.asking.answers import MOST, Answer, Answering, Desk, listed, order_source, run_source
from chordesk.tasks.asking.questions import EXAMPLES, Question
from chordesk.tasks.reading.chain import order_label
from chordesk.tasks.reading.changes import changes, last_close, summary
from chordesk.tools.decimals import plain


def status(desk: Desk, question: Question) -> Answer:
    from chordesk.models.settings.running_desk import is_up
    from chordesk.tasks.reading.desk_status import database_state

    waits = _waiting(desk)
    with desk.store.read() as session:
        state = database_state(session, desk.settings)
    up = is_up(desk.settings.home)
    work = ", ".join(f"{count} {name}" for name, count in state.runs.items()) or "none in work"
    trading = f"{state.trading}{f', {state.why}' if state.why else ''}"
    lines = [f"a desk {'runs' if up else 'does not run'} on this home; {desk.account}: {trading}"]
    lines.append(f"runs: {work}; {len(waits)} wait{'s' if len(waits) == 1 else ''} for you; sweep: {state.sweep}")
    if state.equity is not None:
        equity = f"equity {state.equity.equity:,.2f} {desk.settings.currency}"
        lines.append(f"{equity}, {state.equity.change:+,.2f} on {state.equity.day}")
    lines += [f"halted: {one}" for one in state.halts if desk.clock is None or one.account == desk.account]
    lines += [f"without its stop: {plain(one.quantity)} {one.symbol}, {one.why}" for one in state.unprotected]
    facts = {"runs": state.runs, "waiting": len(waits), "trading": str(state.trading), "up": up}
    missing = ["workers and queues: `desk status` asks them"]
    return Answer(question=question.text, intent="status", text="\n".join(lines), facts=facts, missing=missing)


_CHANGES: Mapping[str, str] = {
    **dict.fromkeys(("rating", "ratings", "verdict", "verdicts"), "verdict"),
    **dict.fromkeys(("setting", "settings"), "setting"), **dict.fromkeys(("thesis", "theses"), "thesis"),
    **dict.fromkeys(("halt", "halts"), "trading"), **dict.fromkeys(("plan", "plans"), "plan"),
}  # fmt: skip


def what_changed(desk: Desk, question: Question) -> Answer:
    since = desk.since(question) or last_close(desk.settings, desk.now)
    with desk.store.read() as session:
        found = changes(session, desk.settings, desk.account, since, 1000, desk.until(question))
    until = desk.until(question)
    begun = f"{desk.time(since)}{f' until {desk.time(until)}' if until is not None else ''}"
    kinds = {kind for word, kind in _CHANGES.items() if question.says(word)}
    rows = [
        one
        for one in found.changes
        if (not question.symbols or one.subject in question.symbols) and (not kinds or one.kind in kinds)
    ]
    lines = [summary(found, begun)]
    if question.symbols or kinds:
        of = " and ".join([*question.symbols, *sorted(kinds)])
        lines = [f"{len(rows)} change{'' if len(rows) == 1 else 's'} of {of} on {desk.account} since {begun}"]
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
    found = _waiting(desk)
    lines, sources, rows = [], [], []
    for one in found:
        until = desk.time(one.approval.expires_at)
        kind = "order" if isinstance(one, WaitingOrder) else "request"
        rows.append({"id": one.approval.id, "kind": kind, "until": one.approval.expires_at.isoformat()})
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
    facts = {"waiting": len(found), "rows": rows}
    return Answer(question=question.text, intent="waiting", text=text, facts=facts, sources=sources)


def _waiting(desk: Desk) -> list[WaitingOrder | WaitingRequest]:
    """Return what waits for a person; for a model, of its own account alone."""
    with desk.store.read() as session:
        found = waiting(session)
        if desk.clock is None:
            return found
        own = select(Run.id).where(Run.account == desk.account)
        runs = set(session.exec(own.where(col(Run.id).in_([_run_of(one) for one in found]))).all())
    return [one for one in found if _run_of(one) in runs]


def _run_of(one: WaitingOrder | WaitingRequest) -> str:
    return one.order.run_id if isinstance(one, WaitingOrder) else one.approval.run_id


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
    asked = _asked_name(question)
    rows = named or ([] if asked else board.rows)
    lines = [
        f"{row.kind} {row.name}: Brier {_estimate(row.brier)}, against its baseline {_estimate(row.alpha)}, "
        f"{row.forecasts} forecasts"
        for row in rows[: 2 * MOST]
    ]
    missing = [board.lacking] if board.lacking else []
    missing += [f"a score of {asked}"] if asked and not named else []
    facts = {
        "rows": [
            {"kind": row.kind, "name": row.name, "forecasts": row.forecasts, "brier": row.brier.mean} for row in rows
        ]
    }
    text = listed(lines, len(rows) - 2 * MOST) or (board.lacking or "nothing is scored yet")
    return Answer(question=question.text, intent="scores", text=text, facts=facts, missing=missing)


_SCORED = re.compile(r"\b(?:lens|voice|role|tool|rating)\s+([a-z][a-z0-9_-]{2,})\b")


def _asked_name(question: Question) -> str | None:
    """Return the name after "lens" and the like."""
    found = _SCORED.search(question.text.lower())
    return found[1] if found is not None and found[1] not in ("scores", "score", "has", "have", "did", "does") else None


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
    "status": status, "changes": what_changed, "waiting": who_waits, "schedule": schedule, "scores": scores,
    "setting": setting, "alerts": alerts, "help": what_to_ask,
}  # fmt: skip
