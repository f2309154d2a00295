"""How runs look on a terminal: the closing table, the actions, the lineage. Pure: data in, rich renderables out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tasks.run_view import ActionRow, Progress, RunView

_COLOURS = {"BUY": "green", "HOLD": "cyan", "CAUTION": "yellow", "PASS": "red", "INSUFFICIENT": "magenta"}
_PHASES = ("screen_shard", "report", "conclude", "decide", "submit")
_TITLES = {
    "screen_shard": "screen",
    "report": "reports",
    "conclude": "verdicts",
    "decide": "trader",
    "submit": "orders",
}
_GROUPS = (("entry", "Entry"), ("exit", "Exit"), ("monitor", "Monitor"))


def progress_line(seen: Progress) -> str:
    """One plain line; also what piped output prints whenever it changes."""
    phases = [f"{_TITLES[k]} {seen.steps[k][0]}/{seen.steps[k][1]}" for k in _PHASES if k in seen.steps]
    candidates = " ".join(f"{name}:{count}" for name, count in seen.candidates.items()) or "none yet"
    return (
        f"{' | '.join(phases) or 'queued'} | candidates {candidates} | "
        f"turns {seen.turns} (+{seen.turns_in_flight} in flight) | tokens {seen.tokens}"
    )


def progress_panel(seen: Progress) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_row("run", f"{seen.run_id}  {seen.kind}  {seen.state}  {seen.seconds:.1f} s")
    table.add_row("speaks", seen.spoken_by)
    for kind in _PHASES:
        if kind in seen.steps:
            done, total = seen.steps[kind]
            table.add_row(_TITLES[kind], f"{_bar(done, total)} {done}/{total}")
    table.add_row("candidates", " ".join(f"{name} {count}" for name, count in seen.candidates.items()) or "-")
    table.add_row("turns", f"{seen.turns} done, {seen.turns_in_flight} in flight, {seen.tokens} tokens")
    return table


def _bar(done: int, total: int, width: int = 24) -> str:
    filled = int(width * done / total) if total else 0
    return "█" * filled + "░" * (width - filled)


def run_report(run: RunView) -> RenderableType:
    """The whole of a finished run."""
    parts: list[RenderableType] = [_headline(run)]
    if run.candidates:
        parts.append(_candidates(run))
    parts += [Text(f"note: {note}", style="dim") for note in run.notes]
    if run.decision:
        parts.append(Text(f"\nTrader ({run.decision}, {run.spoken_by}): {run.reasoning}"))
        parts += _actions(run.actions)
        parts.append(_gate(run))
    return Group(*parts)


def _headline(run: RunView) -> Text:
    figures = run.summary
    spent = f", {figures['turns']} turns, {figures['tokens']} tokens, {figures['seconds']:.1f} s" if figures else ""
    return Text(
        f"Run {run.run_id} ({run.kind}) {run.state}{spent}\n"
        f"Market {run.market} at {run.market_now:%Y-%m-%d %H:%M %Z}, account {run.account}, spoken by {run.spoken_by}"
    )


def _candidates(run: RunView) -> Table:
    table = Table(title=None, header_style="bold")
    for name in ("Symbol", "Screeners", "Conf.", "Verdict", "Conf."):
        table.add_column(name)
    for name in ("Tools", "Tokens"):
        table.add_column(name, justify="right")
    for row in run.candidates:
        colour = _COLOURS.get(row.verdict or "", "white")
        table.add_row(
            row.symbol,
            ", ".join(row.screeners) or row.origin,
            row.confidence,
            f"[{colour}]{row.verdict or '-'}[/]",
            row.verdict_confidence or "-",
            str(row.tools),
            str(row.tokens),
        )
    return table


def _actions(actions: Sequence[ActionRow]) -> Iterable[RenderableType]:
    for key, title in _GROUPS:
        rows = [row for row in actions if row.group == key]
        if not rows:
            continue
        yield Text(f"\n{title}", style="bold")
        for row in rows:
            yield Text(f"  {row.symbol:<6} {row.action:<6} {_size(row):<24} {row.state or '':<10} {row.reasoning}")
            if row.suppressed:
                yield Text(f"         suppressed: {row.suppressed}", style="yellow")


def _size(row: ActionRow) -> str:
    if row.action in ("hold", "watch"):
        return ""
    quantity = f"{row.quantity:g} shares" if row.quantity is not None else ""
    notional = f"{row.notional:,.0f} notional" if row.notional is not None else ""
    return " ".join(part for part in (row.side or "", quantity or notional) if part)


def _gate(run: RunView) -> Text:
    orders = run.summary.get("orders", {})
    if run.summary.get("live"):
        return Text(f"\nGate: TRADER_LIVE=1, orders went to the paper account: {_tally(orders)}", style="bold")
    said = "live trading is off (TRADER_LIVE is not 1); previews are stored, nothing was submitted"
    return Text(f"\nGate: {said}: {_tally(orders)}", style="bold")


def _tally(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "no orders"


def lineage_report(found: dict[str, Any]) -> RenderableType:
    """order -> preview -> decision -> verdict -> reports -> turn -> thread -> screen hit, from the top down."""
    lines: list[RenderableType] = [Text(f"{found['symbol']} in run {found['run']}", style="bold")]
    for order in found["orders"]:
        lines += _order_lines(order)
    if not found["orders"]:
        lines.append(Text("order: none"))
    verdict = found["verdict"]
    lines.append(
        Text(f"verdict {verdict['verdict'] or 'none yet'}: {verdict['rating'] or '-'} ({verdict['confidence'] or '-'})")
    )
    for row in found["reports"]:
        said = row["verdict"] or row["reason"] or ""
        lines.append(
            Text(f"  report {row['role']}: {row['status']} {said}, {row['tools']} tool calls, {row['tokens']} tokens")
        )
        lines.append(
            Text(f"    turn {row['codex_turn']} of thread {row['thread']} ({row['thread_reason']})", style="dim")
        )
    for row in found["hits"]:
        lines.append(Text(f"  screen hit {row['lens']} ({row['confidence']}): {escape(row['thesis'])}"))
        lines.append(Text(f"    turn {row['codex_turn']} of thread {row['thread']}", style="dim"))
    if not found["hits"]:
        lines.append(Text(f"  screen hit: none, the candidate's origin is {verdict['origin']}"))
    return Group(*lines)


def _order_lines(order: dict[str, Any]) -> list[RenderableType]:
    size = f"{order['side'] or ''} {order['quantity'] or ''}".strip()
    lines: list[RenderableType] = [Text(f"order {order['order']}: {order['action']} {size}, {order['state']}")]
    if order["denial_reason"]:
        lines.append(Text(f"  denied {order['denial_code']}: {order['denial_reason']}", style="yellow"))
    if order["payload_hash"]:
        lines.append(
            Text(f"  preview sha256 {order['payload_hash']}, {order['notional']:,.2f} at {order['price']:.2f}")
        )
    lines.append(Text(f"  decision {order['decision']} ({order['decision_status']}, {order['spoken_by']})"))
    lines.append(Text(f"    turn {order['codex_turn']} of thread {order['thread']}", style="dim"))
    return lines
