"""Terminal output of a symbol's lineage: order, preview, decision, verdict, reports, turns, threads, screen hits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.models.database.artifacts import removal_note
from chordesk.tasks.cli.output import paragraph
from chordesk.tasks.cli.render.indented import Indented
from chordesk.tasks.cli.render.results.grounding import citation_lines
from chordesk.tasks.cli.render.sizes import units_text
from chordesk.tasks.cli.render.spending import tokens
from chordesk.tasks.views.order_view import by_code

Row = Mapping[str, Any]


def lineage_report(found: Row, home: Path | None = None) -> RenderableType:
    """Return the lineage from the order down to the screen hit; each level is indented under the one based on it.

    home: the data folder of this shell, in which removed pictures are noted."""
    lines: list[RenderableType] = [Text(f"{found['symbol']} in run {found['run']}", style="bold")]
    if found["source_run"]:
        lines.append(Text(f"researched in run {found['source_run']}"))
    for order in found["orders"]:
        lines += _order(order)
    if not found["orders"]:
        lines.append(Text("order: none"))
    lines += _verdict(found["verdict"])
    if found.get("analysis"):
        lines += _analysis(found["analysis"])
    for row in found["reports"]:
        lines += _report(row, found["source_run"] or found["run"], home)
    for row in found.get("forecasts", ()):
        lines += _forecast(row)
    for row in found["hits"]:
        lines += _hit(row)
    if not found["hits"] and found["verdict"]:
        lines.append(_in(1, f"screen hit: none, the candidate's origin is {found['verdict']['origin']}"))
    return Group(*lines)


def _in(level: int, text: str, style: str = "") -> RenderableType:
    return Indented(Text(text, style=style), 2 * level)


def _turn(level: int, row: Row) -> RenderableType:
    """Return a turn and its thread by the app-server's ids. A turn that never began has none; a person and code have no
    turn."""
    if row["turn"] is None:
        return _in(level, f"decided by {'code' if by_code(row['author']) else 'a person'}", "dim")
    turn, thread = row["codex_turn"] or "that never began", row["thread"] or "-"
    reason = f" ({row['thread_reason']})" if row["thread_reason"] else ""
    return _in(level, f"turn {turn}\nof thread {thread}{reason}", "dim")


def _order(order: Row) -> Iterable[RenderableType]:
    quantity = (
        paragraph(units_text(order["quantity"], order["contract"], order["legs"]))
        if order["quantity"] is not None
        else ""
    )
    size = " ".join(part for part in (order["action"], order["side"], quantity) if part)
    yield Text(f"order {order['order']}: {size}, {order['state']}")
    if order["denial_reason"]:
        yield _in(1, f"suppressed, {order['denial_code']}: {paragraph(order['denial_reason'])}", "yellow")
    if order["payload_hash"]:
        yield _in(1, f"preview {order['notional']:,.2f} at {order['price']:,.2f}, sha256\n{order['payload_hash']}")
    yield _in(1, f"decision {order['decision']}: {order['decision_status']}, by {order['author']}")
    yield _turn(2, order)


def _verdict(row: Row | None) -> Iterable[RenderableType]:
    if row is None:
        yield Text("verdict: none, the run did not research this symbol")
    elif row["verdict"] is None:
        yield Text("verdict: none yet")
    else:
        yield Text(f"verdict {row['verdict']}: {row['rating']} ({row['confidence']})")


def _analysis(row: Row) -> Iterable[RenderableType]:
    contract = f" {row['contract']}, quotes {row['chain']}" if row["contract"] else ""
    yield Text(f"analysis {row['analysis']}: {row['strategy']} {row['recommendation']}{contract}")
    if row["turn"]:
        yield _in(1, f"its text is by {row['author']}")
        yield _turn(2, row)


def _report(row: Row, run: str, home: Path | None) -> Iterable[RenderableType]:
    yield _in(1, f"report {row['role']}: {_answer(row)}, by {row['author']}")
    if row["run"] != run:
        yield _in(2, f"of run {row['run']}: the role was not due", "dim")
    calls = "1 tool call" if row["tools"] == 1 else f"{row['tools']} tool calls"
    names = ", ".join(dict.fromkeys(call["tool"] for call in row.get("calls", ())))
    yield _in(2, f"{calls}{f' ({names})' if names else ''}, {tokens(row['tokens'])}", "dim")
    if row["summary"] and row["summary"] not in (row["reason"] or ""):
        yield _in(2, paragraph(row["summary"]))
    for line in citation_lines(row.get("grounding")):
        yield _in(3, line, "dim")
    for path in row.get("pictures", ()):
        yield Text(f"picture in the data folder:\n{path}", style="dim")
        if (note := removal_note(home, path)) is not None:
            yield _in(2, note, "dim")
    yield _turn(2, row)


def _answer(row: Row) -> str:
    """Return a report's stance, or its status with the reason, which may name the status itself."""
    if row["verdict"]:
        return f"{row['status']} {row['verdict']} ({row['confidence']})"
    status, reason = row["status"].replace("_", " "), paragraph(row["reason"])
    return reason if reason.startswith(status) else f"{status}: {reason}" if reason else status


def _forecast(row: Row) -> Iterable[RenderableType]:
    head = f"forecast of {row['voice']}, round {row['round']}: {row['probability']:.1%} against {row['baseline']:.1%}"
    yield _in(1, f"{head}, by {row['author']}")
    yield _in(2, paragraph(row["text"]))
    for one in row["citations"]:
        counts = "counts" if one["counts"] else f"void, {paragraph(one['reason'])}"
        yield _in(2, f"{one['stance']} {paragraph(one['label'])} ({counts}): {paragraph(one['claim'])}")
        if one["signal"] is not None:
            yield _in(3, f"signal {one['signal']} of {one['tool']}: {paragraph(one['headline'])}", "dim")
    yield _turn(2, row)


def _hit(row: Row) -> Iterable[RenderableType]:
    yield _in(1, f"screen hit {row['lens']} ({row['confidence']}), by {row['author']}")
    yield _in(2, paragraph(row["thesis"]))
    yield _turn(2, row)
