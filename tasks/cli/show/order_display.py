"""Orders on a terminal: a list, one order, its history. One line for each fact, so that each fits a screen.

Lines are cut at the terminal's width; --json has the whole text.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chordesk.models.database.blobs import removal_note
from chordesk.models.exchanges import at_listing, exchange_code, zone_of
from chordesk.models.money import DOLLAR, coded
from chordesk.models.order_terms import shown
from chordesk.models.text import SHORT_ID, utc_seconds
from chordesk.models.thesis import Pooled
from chordesk.tasks.cli.output import Indented, paragraph, state, table
from chordesk.tasks.cli.show.amount_text import legs_text, tokens, units_text
from chordesk.tasks.cli.show.results import citation_lines
from chordesk.tools import rogue_calls
from chordesk.tools.decimals import money, plain
from chordesk.tools.orders.stops import bound_text, plan_text, preview_text
from chordesk.tools.position_plans import plan_of

if TYPE_CHECKING:
    from chordesk.models.tables.orders import Approval, Fill, Order, Preview
    from chordesk.tasks.reading.chain import Chain, Node
    from chordesk.tasks.reading.order_history import OrderDetail, OrderEffect
    from chordesk.tools.orders.audit import AuditEntry
    from chordesk.tools.rogue_calls import RogueRow

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


_DOLLARS: Mapping[str, str] = {}


def effect_table(effect: OrderEffect) -> Table:
    """What an order would do to its account, before and after."""

    def share(value: float | None) -> str:
        return "not known" if value is None else f"{value:.1%}"

    rows = [(f"share of {effect.symbol}", share(effect.share_before), share(effect.share_after))]
    if effect.sector is not None:
        rows.append((f"sector {effect.sector}", share(effect.sector_before), share(effect.sector_after)))
    before, after = (coded(f"{one:,.2f}", effect.currency) for one in (effect.cash_before, effect.cash_after))
    rows.append(("cash", before, after))
    return table(("account", "before", "after"), rows, right=("before", "after"))


def order_list(rows: Sequence[tuple[Order, Preview | None]], currencies: Mapping[str, str] = _DOLLARS) -> Table:
    """currencies: by account."""
    cells = [
        (
            order.id[:SHORT_ORDER],
            f"{order.market_at.astimezone(zone_of(exchange_code(order.symbol))):%Y-%m-%d %H:%M}",
            order.account,
            paragraph(order.contract or order.symbol),
            paragraph(f"{size_of(order)}{_kind(order)}", 32),
            coded(f"{preview.notional:,.0f}", currencies.get(order.account)) if preview else "-",
            state(order.state, f"{order.state} {order.denial_code or ''}".rstrip()),
        )
        for order, preview in rows
    ]
    columns = ("Order", "Drafted", "Account", "Symbol", "What", "Notional", "State")
    return table(columns, cells, right=("Notional",), narrow="What")


def _kind(order: Order) -> str:
    return "" if order.order_type in (None, "market") else f", {shown(order.order_type)}"


def size_of(order: Order) -> str:
    quantity = plain(order.quantity) if order.quantity is not None else ""
    legs = f"of ({legs_text(order.legs)})" if order.legs else ""
    return " ".join(part for part in (order.action, order.side, quantity, legs) if part)


def order_report(found: OrderDetail, log_lines: int, home: Path | None = None) -> RenderableType:
    """home: the data folder of this shell, in which removed pictures are noted."""
    order, own = found.order, found.currency
    priced = (found.preview.currency if found.preview else None) or own
    lines = [
        _headline(order),
        *_terms(order, priced, own),
        *_rogue(found.rogue),
        *_denial(order),
        *_preview(found.preview, priced, own),
        *_approval(found.approval),
    ]
    lines += [
        *_sent(order),
        *_fills(found.fills, order.legs, own),
        *_protected(found.protected_by, priced),
        *_ground(found.chain, home),
    ]
    lines.append(Text(f"log: {log_lines} lines, desk audit show --order {order.id[:SHORT_ORDER]}", style="dim"))
    return _screen(lines)


def _headline(order: Order) -> Text:
    symbol = paragraph(order.contract or order.symbol)
    return Text.assemble(("order ", "bold"), f"{order.id}  {paragraph(size_of(order))} {symbol}: ", state(order.state))


def _terms(order: Order, priced: str, own: str) -> Iterable[Text]:
    kind = terms_text(order, priced)
    yield Text(
        f"account {order.account}, {kind}, {at_listing(order.market_at, order.symbol)}, run {order.run_id[:SHORT_ID]}"
    )
    if order.protects:
        yield Text(f"protects the position of order {order.protects[:SHORT_ORDER]}")
    if order.exit_reason:
        yield Text(f"closes its position: {order.exit_reason}")
    yield from _plan(order, priced, own)
    if order.message:
        yield Text(f"note: {paragraph(order.message, _LONGEST)}")


def _plan(order: Order, priced: str, own: str) -> Iterable[Text]:
    plan = plan_of(order)
    if plan is None:
        return
    source = f" (stop: {paragraph(plan.stop_source)})" if plan.stop_source else ""
    yield Text(f"plan: {plan_text(plan, priced)}{source}")
    if plan.by_code:
        yield Text(f"  by code, for its trader named none: {', '.join(plan.by_code)}", style="dim")
    if (bound := bound_text(plan, own, always=priced != own)) is not None:
        yield Text(f"bound: {paragraph(bound)}")


def _rogue(rows: Sequence[RogueRow]) -> Iterable[Text]:
    if (told := rogue_calls.note(rows)) is not None:
        yield Text(paragraph(told, _LONGEST), style="red")


def terms_text(order: Order, currency: str = DOLLAR) -> str:
    """currency: of the prices."""
    percent = f"trail {plain(order.trail_percent)} %" if order.trail_percent is not None else ""
    prices = ((name, getattr(order, f"{name}_price")) for name in ("stop", "limit"))
    given = [f"{name} {money(price, currency)}" for name, price in prices if price is not None]
    kind = f"{shown(order.order_type or 'no')} order"
    if order.order_type == "limit" and order.limit_price is not None:
        kind, given = f"{kind} at {money(order.limit_price, currency)}", []
    lasts = "" if order.time_in_force == "day" else order.time_in_force
    return ", ".join(part for part in (kind, percent, *given, lasts) if part)


def _denial(order: Order) -> Iterable[Text]:
    if order.denial_code:
        yield Text(f"denied, {order.denial_code}: {paragraph(order.denial_reason, _LONGEST)}", style="yellow")
        yield Text(f"  measured: {paragraph(order.measured)}; limit: {paragraph(order.limit_text)}", style="yellow")


def _preview(preview: Preview | None, priced: str, own: str) -> Iterable[Text]:
    if preview is None:
        yield Text("preview: none")
    else:
        when = utc_seconds(preview.created_at)
        at = money(preview.price, priced)
        if preview.currency is not None and preview.rate is not None:
            at = f"{preview.currency} {money(preview.price)} (rate {plain(preview.rate)}, {preview.rate_source})"
        due = "".join(f", {name} {money(amount, own, always=priced != own)}" for name, amount in preview.duties or ())
        yield Text(f"preview {money(preview.notional, own, always=priced != own)} at {at}{due}, made {when}")
        yield Text(f"  sha256 {preview.payload_hash}")
        protection = preview_text(preview.payload, priced)
        if protection is not None:
            yield Text(f"  a fill is protected: {protection}")


def _approval(approval: Approval | None) -> Iterable[Text]:
    if approval is None:
        return
    by = f" by {paragraph(approval.decided_by)}" if approval.decided_by else ""
    when = approval.decided_at or approval.expires_at
    until = "at" if approval.decided_at else "until"
    why = f": {paragraph(approval.why)}" if approval.why else ""
    yield Text(f"approval {approval.state}{by} {until} {utc_seconds(when)}{why}")


def _sent(order: Order) -> Iterable[Text]:
    if order.fence is None:
        yield Text("sent: no")
    else:
        known = paragraph(order.broker_order_id) or "no id yet"
        yield Text(f"sent once, under fence {order.fence}; the broker's id: {known}")


def _fills(fills: Sequence[Fill], legs: object, own: str) -> Iterable[Text]:
    for fill in fills[:MOST_FILLS]:
        cost = (
            f", commission {money(fill.commission, own, always=fill.currency is not None)}" if fill.commission else ""
        )
        cost += "".join(
            f", {name} {money(amount, own, always=fill.currency is not None)}" for name, amount in fill.duties or ()
        )
        at = money(fill.price, fill.currency or own)
        if fill.currency is not None and fill.rate is not None:
            at = f"{fill.currency} {money(fill.price)} (rate {plain(fill.rate)}, {fill.rate_source})"
        leg = f" {fill.side} {fill.symbol}" if legs else ""
        yield Text(f"fill {plain(fill.quantity)}{leg} at {at}{cost}, {at_listing(fill.filled_at, fill.symbol)}")
    if len(fills) > MOST_FILLS:
        total = sum(fill.quantity for fill in fills)
        yield Text(f"  and {len(fills) - MOST_FILLS} more fills, {plain(total)} in all")


def _protected(orders: Sequence[Order], priced: str) -> Iterable[Text]:
    if orders:
        last = orders[-1]
        text = f"protected by order {last.id[:SHORT_ORDER]}: {paragraph(size_of(last))}, {terms_text(last, priced)}"
        yield Text(f"{text}, {last.state}")


def _ground(found: Chain, home: Path | None) -> Iterable[Text]:
    for node in found.nodes_of("decision"):
        yield Text(_decided(found, node))
        yield Text(f"  thread {node.thread_id or '-'}", style="dim")
    verdict = found.first("verdict")
    yield Text(_line(verdict) if verdict is not None else "verdict: none")
    for node in found.nodes_of("analysis"):
        yield Text(f"  {_analysis(node)}")
    for node in found.nodes_of("report"):
        yield Text(f"  {_line(node)}")
        for path, note in _pictures(node, home):
            yield Text(f"    picture {path}{f' ({note})' if note else ''}", style="dim")
    for node in found.nodes_of("forecast"):
        yield Text(f"  {_line(node)}")
        for one in (each for each in node.facts["citations"] if each["counts"]):
            yield Text(f"    {one['stance']} {one['label']}: {paragraph(one['claim'], _LONGEST)}", style="dim")
    for node in found.nodes_of("hit"):
        yield Text(f"  {_line(node)}")
    if (none := _no_hit(found)) is not None:
        yield Text(f"  {none}")


def _line(node: Node) -> str:
    more = node.facts.get("summary") or node.facts.get("because")
    if rogue := node.facts.get("rogue"):
        named = ", ".join(f"{one['tool']} ({one['kind']})" for one in rogue)
        more = f"rogue calls: {named}" + (f"; {more}" if more else "")
    return f"{node.kind} {paragraph(f'{node.label}: {more}' if more else node.label, _LONGEST)}"


def _decided(found: Chain, node: Node) -> str:
    from chordesk.tasks.reading.chain import by_code

    author, order = node.facts["author"], found.first("order")
    why = order.facts["why"] if order is not None else None
    return f"{'' if by_code(author) else 'trader '}{author}: {paragraph(why or node.facts['reasoning'], _LONGEST)}"


def _analysis(node: Node) -> str:
    quotes = f", quotes {node.facts['quotes']}" if node.facts["quotes"] else ""
    return f"analysis {node.id}: {paragraph(node.label)}{quotes}"


def _no_hit(found: Chain) -> str | None:
    candidate = found.first("candidate")
    if found.nodes_of("hit"):
        return None
    origin = f"the candidate's origin is {candidate.facts['origin']}" if candidate is not None else "no research"
    return f"hit: none, {origin}"


def _pictures(node: Node, home: Path | None) -> Iterable[tuple[str, str | None]]:
    return ((path, removal_note(home, path)) for path in node.facts["pictures"])


def order_history(found: OrderDetail, entries: Sequence[AuditEntry]) -> RenderableType:
    lines = [_headline(found.order)]
    if (none := _no_hit(found.chain)) is not None:
        lines.append(_moment(None, none))
    for node in found.chain.nodes_of("hit", "report", "forecast", "verdict", "decision"):
        decided = node.kind == "decision"
        lines.append(_moment(node.at, _decided(found.chain, node) if decided else _line(node)))
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
    if not entries:
        return Text("nothing is on record yet")
    return _screen(_logged(entry) for entry in entries)


def _logged(entry: AuditEntry) -> Text:
    order = str(entry.facts.get("order") or "")[:SHORT_ORDER]
    at = dt.datetime.fromisoformat(entry.at)
    return Text.assemble(
        (f"{entry.n:>5} {at:%Y-%m-%d %H:%M:%S}  ", "dim"), f"{order:<{SHORT_ORDER}} {entry_line(entry)}"
    )


def lineage_report(found: Chain, home: Path | None = None) -> RenderableType:
    """The chain from orders to screen hits, each level indented under the one based on it. home: as of
    `order_report`."""
    lines: list[RenderableType] = [Text(f"{found.symbol} in run {found.run_id}", style="bold")]
    if found.source_run:
        lines.append(Text(f"researched in run {found.source_run}"))
    for order in found.nodes_of("order"):
        lines += _order(found, order)
    if not found.nodes_of("order"):
        lines.append(Text("order: none"))
    lines += _judged(found)
    for node in found.nodes_of("analysis"):
        lines.append(Text(_analysis(node)))
        lines += _by_turn(1, node)
    for node in found.nodes_of("report"):
        lines += _report(node, found.source_run or found.run_id, home)
    for node in found.nodes_of("forecast"):
        lines += _forecast(found, node)
    for node in found.nodes_of("hit"):
        lines += [_in(1, paragraph(f"hit {node.label}", _LONGEST)), *_by_turn(2, node)]
    if (none := _no_hit(found)) is not None and found.nodes_of("candidate"):
        lines.append(_in(1, none))
    return Group(*lines)


def _in(level: int, text: str, style: str = "") -> RenderableType:
    return Indented(Text(text, style=style), 2 * level)


def _by_turn(level: int, node: Node) -> Iterable[RenderableType]:
    """Yield the author, and the turn with its thread by the app-server's ids; a turn that never began has none."""
    if node.turn_id is None and node.facts.get("author") is None:
        return
    yield _in(level, f"by {node.facts['author']}", "dim")
    if node.turn_id is not None:
        reason = f" ({node.thread_reason})" if node.thread_reason else ""
        yield _in(
            level, f"turn {node.codex_turn_id or 'that never began'}\nof thread {node.thread_id or '-'}{reason}", "dim"
        )


def _order(found: Chain, node: Node) -> Iterable[RenderableType]:
    from chordesk.tasks.reading.chain import by_code

    facts = node.facts
    quantity = units_text(facts["quantity"], facts["contract"], facts["legs"]) if facts["quantity"] is not None else ""
    size = " ".join(part for part in (facts["action"], facts["side"], paragraph(quantity)) if part)
    yield Text(f"order {node.id}: {size}, {facts['state']}")
    if facts["denial_reason"]:
        yield _in(1, f"suppressed, {facts['denial_code']}: {paragraph(facts['denial_reason'])}", "yellow")
    for one in found.nodes_of("preview", "approval", "fill", "protection"):
        if one.facts["order_id"] == node.id:
            yield _in(1, f"{one.kind} {paragraph(one.label)}")
    causes = {edge.source for edge in found.edges if edge.target == node.id}
    for one in found.nodes_of("decision"):
        if one.id in causes:
            yield _in(1, f"decision {one.id}: {one.facts['status']}")
            yield from _by_turn(2, one)
            if one.turn_id is None:
                yield _in(2, f"decided by {'code' if by_code(one.facts['author']) else 'a person'}", "dim")


def _judged(found: Chain) -> Iterable[RenderableType]:
    node = found.first("verdict")
    if node is not None:
        yield Text(f"verdict {node.id}: {node.label}")
        if (pooled := node.facts["pooled"]) is not None:
            theses = {one.facts["role"]: one.facts["thesis"] or {} for one in found.nodes_of("report")}
            yield from _pooled(Pooled.model_validate(pooled), theses)
    else:
        yield Text(
            f"verdict: none{' yet' if found.nodes_of('candidate') else ', the run did not research this symbol'}"
        )


def _pooled(pooled: Pooled, theses: Mapping[str, Mapping[str, Any]]) -> Iterable[RenderableType]:
    """Yield the arithmetic of a verdict as a table: a row a thesis, and the sum."""
    rows = [
        (row.role, odds(row.probability), f"{row.weight:.2f}", odds(row.earned), *_terms_of(theses.get(row.role, {})))
        for row in pooled.rows
    ]
    wrong = "-" if pooled.invalidation_price is None else f"{pooled.invalidation_price:g}"
    told = (odds(pooled.probability), "1.00" if pooled.theses else "-", "-", str(pooled.horizon or "-"), wrong)
    columns = ("Thesis of", "Probability", "Weight", "By record", "Sessions", "Wrong at")
    yield Indented(table(columns, [*rows, ("pooled", *told)], right=columns[1:5]), 2)
    if pooled.probability is not None:
        yield _in(1, f"95 % interval {odds(pooled.low)} to {odds(pooled.high)}; spread {odds(pooled.spread)}", "dim")


def odds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _terms_of(thesis: Mapping[str, Any]) -> tuple[str, str]:
    """Return a thesis' horizon, and where it is wrong."""
    wrong, price = thesis.get("invalidation") or {}, thesis.get("invalidation_price")
    event = f"{wrong['day']}: {wrong['event']}" if wrong.get("event") else "-"
    at = event if price is None else f"{price:g} ({wrong.get('level')})"
    return str(thesis.get("horizon") or "-"), paragraph(at)


def points(thesis: Mapping[str, Any] | None) -> Iterable[str]:
    """Yield what a thesis says for its share, and against."""
    for name, word in (("points_for", "for"), ("points_against", "against")):
        yield from (f"{word}: {paragraph(one['text'])} [{one['source']}]" for one in (thesis or {}).get(name, ()))


def _report(node: Node, run: str, home: Path | None) -> Iterable[RenderableType]:
    facts = node.facts
    yield _in(1, paragraph(f"report {node.label}", _LONGEST))
    if facts["run_id"] != run:
        yield _in(2, facts.get("reused") or f"of run {facts['run_id']}: the role was not due", "dim")
    count = len(facts["calls"])
    names = ", ".join(dict.fromkeys(call["tool"] for call in facts["calls"]))
    calls = f"{count} tool call{'' if count == 1 else 's'}{f' ({names})' if names else ''}"
    yield _in(2, f"{calls}, {tokens(facts['tokens'])}", "dim")
    if facts["summary"] and facts["summary"] not in (facts["reason"] or ""):
        yield _in(2, paragraph(facts["summary"]))
    for line in points(facts["thesis"]):
        yield _in(2, line)
    for line in citation_lines(facts["grounding"]):
        yield _in(3, line, "dim")
    for path, note in _pictures(node, home):
        yield Text(f"picture in the data folder:\n{path}", style="dim")
        if note is not None:
            yield _in(2, note, "dim")
    yield from _by_turn(2, node)


def _forecast(found: Chain, node: Node) -> Iterable[RenderableType]:
    yield _in(1, paragraph(f"forecast {node.label}", _LONGEST))
    signals = {one.id: one for one in found.nodes_of("signal")}
    for one in node.facts["citations"]:
        counts = "counts" if one["counts"] else f"void, {paragraph(one['reason'])}"
        yield _in(2, f"{one['stance']} {paragraph(one['label'])} ({counts}): {paragraph(one['claim'])}")
        if (signal := signals.get(one["signal_id"])) is not None:
            yield _in(3, f"signal {signal.id} of {signal.facts['tool']}: {paragraph(signal.label)}", "dim")
    yield from _by_turn(2, node)
