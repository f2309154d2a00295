"""Orders on a terminal: a list, one order, its history. One line for each fact, so that each fits a screen.

Lines are cut at the terminal's width; --json has the whole text.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chordesk.models.database.artifacts import removal_note
from chordesk.models.order_terms import shown
from chordesk.models.tables.orders import Order, Preview
from chordesk.models.text import NEW_YORK, new_york, utc_seconds
from chordesk.tasks.cli.output import Indented, paragraph, state, table
from chordesk.tasks.cli.show.amounts import legs_text, tokens, units_text
from chordesk.tasks.cli.show.results import citation_lines
from chordesk.tasks.cli.show.runs import SHORT_ID
from chordesk.tasks.reading.orders import by_code
from chordesk.tools.decimals import money, plain
from chordesk.tools.orders.audit import AuditEntry
from chordesk.tools.orders.stops import preview_text

SHORT_ORDER = 8
# With every lens and every role, each of the two reports stays under 24 lines.
MOST_FILLS = 3
MOST_LINES = 11
_LONGEST = 400
# Facts of a log line: _FIRST come first, _IDS are left out, for --json has them.
_FIRST = dict.fromkeys(
    (
        "code",
        "reason",
        "state",
        "symbol",
        "contract",
        "action",
        "side",
        "quantity",
        "price",
        "notional",
        "by",
        "why",
        "measured",
    )
)
_IDS = dict.fromkeys(("order", "payload", "id", "run_id", "decision", "decision_id", "approval", "ordinal"))
Row = Mapping[str, Any]


def order_list(rows: Sequence[tuple[Order, Preview | None]]) -> Table:
    """Return a table with one line an order; ids are cut to what `desk orders show` needs."""
    cells = [
        (
            order.id[:SHORT_ORDER],
            f"{order.market_at.astimezone(NEW_YORK):%Y-%m-%d %H:%M}",
            order.account,
            paragraph(order.contract or order.symbol),
            paragraph(f"{size_of(order.model_dump())}{_kind(order)}", 32),
            f"{preview.notional:,.0f}" if preview else "-",
            state(order.state, f"{order.state} {order.denial_code or ''}".rstrip()),
        )
        for order, preview in rows
    ]
    columns = ("Order", "Drafted", "Account", "Symbol", "What", "Notional", "State")
    return table(columns, cells, right=("Notional",), narrow="What")


def _kind(order: Order) -> str:
    return "" if order.order_type in (None, "market") else f", {shown(order.order_type)}"


def size_of(order: Row) -> str:
    quantity = plain(order["quantity"]) if order["quantity"] is not None else ""
    legs = f"of ({legs_text(order['legs'])})" if order.get("legs") else ""
    return " ".join(part for part in (order["action"], order["side"], quantity, legs) if part)


def order_report(found: Row, log_lines: int, home: Path | None = None) -> RenderableType:
    """Return an order as it stands: size, state, checks, preview, approval, fills, and what it rests on. home: the data
    folder of this shell, in which removed pictures are noted."""
    order = found["order"]
    lines = [_headline(order), *_terms(order), *_denial(order), *_preview(found), *_approval(found["approval"])]
    lines += [
        *_sent(order),
        *_fills(found["fills"], order["legs"]),
        *_protected(found["protected_by"]),
        *_ground(found, home),
    ]
    lines.append(Text(f"log: {log_lines} lines, desk audit show --order {order['id'][:SHORT_ORDER]}", style="dim"))
    return _screen(lines)


def _headline(order: Row) -> Text:
    symbol = paragraph(order["contract"] or order["symbol"])
    return Text.assemble(
        ("order ", "bold"), f"{order['id']}  {paragraph(size_of(order))} {symbol}: ", state(order["state"])
    )


def _terms(order: Row) -> Iterable[Text]:
    kind = terms_text(order)
    yield Text(f"account {order['account']}, {kind}, {new_york(order['market_at'])}, run {order['run_id'][:SHORT_ID]}")
    if order["protects"]:
        yield Text(f"protects the position of order {order['protects'][:SHORT_ORDER]}")
    if order["message"]:
        yield Text(f"note: {paragraph(order['message'], _LONGEST)}")


def terms_text(order: Row) -> str:
    """Return type, prices and time in force as text; day is not named."""
    percent = f"trail {plain(order['trail_percent'])} %" if order["trail_percent"] is not None else ""
    prices = ((name, order[f"{name}_price"]) for name in ("stop", "limit"))
    given = [f"{name} {money(price)}" for name, price in prices if price is not None]
    kind = f"{shown(order['order_type'] or 'no')} order"
    if order["order_type"] == "limit" and given:
        kind, given = f"{kind} at {money(order['limit_price'])}", []
    lasts = "" if order["time_in_force"] == "day" else order["time_in_force"]
    return ", ".join(part for part in (kind, percent, *given, lasts) if part)


def _denial(order: Row) -> Iterable[Text]:
    if order["denial_code"]:
        yield Text(f"denied, {order['denial_code']}: {paragraph(order['denial_reason'], _LONGEST)}", style="yellow")
        yield Text(
            f"  measured: {paragraph(order['measured'])}; limit: {paragraph(order['limit_text'])}", style="yellow"
        )


def _preview(found: Row) -> Iterable[Text]:
    preview = found["preview"]
    if preview is None:
        yield Text("preview: none")
    else:
        when = utc_seconds(preview["created_at"])
        yield Text(f"preview {money(preview['notional'])} at {money(preview['price'])}, made {when}")
        yield Text(f"  sha256 {preview['payload_hash']}")
        protection = preview_text(preview["payload"])
        if protection is not None:
            yield Text(f"  a fill is protected: {protection}")


def _approval(approval: Row | None) -> Iterable[Text]:
    if approval is None:
        return
    by = f" by {paragraph(approval['decided_by'])}" if approval["decided_by"] else ""
    when = approval["decided_at"] or approval["expires_at"]
    until = "at" if approval["decided_at"] else "until"
    why = f": {paragraph(approval['why'])}" if approval["why"] else ""
    yield Text(f"approval {approval['state']}{by} {until} {utc_seconds(when)}{why}")


def _sent(order: Row) -> Iterable[Text]:
    if order["fence"] is None:
        yield Text("sent: no")
    else:
        known = paragraph(order["broker_order_id"]) or "no id yet"
        yield Text(f"sent once, under fence {order['fence']}; the broker's id: {known}")


def _fills(fills: Sequence[Row], legs: object) -> Iterable[Text]:
    for fill in fills[:MOST_FILLS]:
        cost = f", commission {money(fill['commission'])}" if fill["commission"] else ""
        leg = f" {fill['side']} {fill['symbol']}" if legs else ""
        yield Text(
            f"fill {plain(fill['quantity'])}{leg} at {money(fill['price'])}{cost}, {new_york(fill['filled_at'])}"
        )
    if len(fills) > MOST_FILLS:
        total = sum(fill["quantity"] for fill in fills)
        yield Text(f"  and {len(fills) - MOST_FILLS} more fills, {plain(total)} in all")


def _protected(orders: Sequence[Row]) -> Iterable[Text]:
    if orders:
        last = orders[-1]
        text = f"protected by order {last['id'][:SHORT_ORDER]}: {paragraph(size_of(last))}, {terms_text(last)}"
        yield Text(f"{text}, {last['state']}")


def _ground(found: Row, home: Path | None) -> Iterable[Text]:
    decision, verdict = found["decision"], found["verdict"]
    why = paragraph(decision["why"] or decision["reasoning"], _LONGEST)
    yield Text(f"{'' if by_code(decision['author']) else 'trader, '}{decision['author']}: {why}")
    yield Text(f"  thread {decision['thread'] or '-'}", style="dim")
    if verdict is None or verdict["verdict"] is None:
        yield Text("verdict: none")
    else:
        yield Text(f"verdict {verdict['rating']} ({verdict['confidence']}): {paragraph(verdict['summary'], _LONGEST)}")
    if (made := found["analysis"]) is not None:
        chain = f", quotes {made['chain']}" if made["chain"] else ""
        yield Text(f"  analysis {made['analysis']}: {made['strategy']} {made['recommendation']}{chain}")
    for row in found["reports"]:
        yield Text(f"  {report_line(row)}")
        for path in row.get("pictures", ()):
            yield Text(f"    picture {path}", style="dim")
            if (note := removal_note(home, path)) is not None:
                yield Text(f"    {note}", style="dim")
    for row in found.get("forecasts", ()):
        yield Text(f"  {forecast_line(row)}")
        for one in (each for each in row["citations"] if each["counts"]):
            yield Text(f"    {one['stance']} {one['label']}: {paragraph(one['headline'], _LONGEST)}", style="dim")
    for row in found["hits"]:
        yield Text(f"  {hit_line(row)}")
    if not found["hits"] and verdict:
        yield Text(f"  screen hit: none, the candidate's origin is {verdict['origin']}")


def report_line(row: Row) -> str:
    stance = f"{row['verdict']} ({row['confidence']})" if row["verdict"] else row["status"]
    return f"report {row['role']} {stance}: {paragraph(row['summary'] or row['reason'], _LONGEST)}"


def forecast_line(row: Row) -> str:
    """Return a voice's forecast of the question on an order's symbol."""
    moved = f"{row['probability']:.1%} against {row['baseline']:.1%}"
    return f"forecast {row['voice']}, round {row['round']}, {moved}: {paragraph(row['because'], _LONGEST)}"


def hit_line(row: Row) -> str:
    return f"hit {row['lens']} ({row['confidence']}): {paragraph(row['thesis'], _LONGEST)}"


def order_history(found: Row, entries: Sequence[AuditEntry]) -> RenderableType:
    """Return the history of an order by time, from the screener's hit to its last fill. Times are UTC."""
    order, decision, verdict = found["order"], found["decision"], found["verdict"]
    lines = [_headline(order)]
    lines += [_moment(row["at"], hit_line(row)) for row in found["hits"]]
    if not found["hits"]:
        origin = verdict["origin"] if verdict else "no research"
        lines.append(_moment(None, f"hit: none, the candidate's origin is {origin}"))
    lines += [_moment(row["at"], report_line(row)) for row in found["reports"]]
    lines += [_moment(row["at"], forecast_line(row)) for row in found.get("forecasts", ())]
    if verdict and verdict["verdict"]:
        lines.append(
            _moment(None, f"verdict {verdict['rating']} ({verdict['confidence']}): {paragraph(verdict['summary'])}")
        )
    why = paragraph(decision["why"] or decision["reasoning"], _LONGEST)
    by = decision["author"] if by_code(decision["author"]) else f"trader {decision['author']}"
    lines.append(_moment(decision["at"], f"{by}: {why}"))
    lines += _log(entries)
    return _screen(lines)


def _log(entries: Sequence[AuditEntry]) -> Iterable[Text]:
    if not entries:
        yield _moment(None, "the log has no line on this order")
    first = MOST_LINES // 2
    cut = len(entries) - MOST_LINES
    for place, entry in enumerate(entries):
        if cut > 0 and place == first:
            yield _moment(None, f"... {cut} lines of the log left out, --json has them")
        if cut <= 0 or place < first or place >= first + cut:
            yield _moment(dt.datetime.fromisoformat(entry.at), f"{entry.n:>4} {entry_line(entry)}")


def entry_line(entry: AuditEntry) -> str:
    """Return a line of the log without its hashes: the kind, then its facts, the most important first."""
    names = [*(name for name in _FIRST if name in entry.facts), *(n for n in entry.facts if n not in _FIRST | _IDS)]
    facts = [(name, entry.facts[name]) for name in names if entry.facts[name] is not None]
    return f"{entry.kind} " + ", ".join(f"{name} {paragraph(_short(value))}" for name, value in facts)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return plain(value)
    if isinstance(value, Mapping):
        return " ".join(_short(item) for item in value.values() if item is not None)
    return ", ".join(_short(item) for item in value) if isinstance(value, list) else str(value)


def _moment(at: dt.datetime | None, what: str) -> Text:
    return Text.assemble((f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S}  " if at else " " * 21, "dim"), what)


def _screen(lines: Iterable[Text]) -> RenderableType:
    shown = list(lines)
    for line in shown:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*shown)


def log_table(entries: Sequence[AuditEntry]) -> RenderableType:
    """Return lines of the log, one a line."""
    if not entries:
        return Text("nothing is on record yet")
    return _screen(_logged(entry) for entry in entries)


def _logged(entry: AuditEntry) -> Text:
    order = str(entry.facts.get("order") or "")[:SHORT_ORDER]
    at = dt.datetime.fromisoformat(entry.at)
    return Text.assemble(
        (f"{entry.n:>5} {at:%Y-%m-%d %H:%M:%S}  ", "dim"), f"{order:<{SHORT_ORDER}} {entry_line(entry)}"
    )


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
