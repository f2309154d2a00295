"""Terminal output of a backtest: its sessions, its curves against the universe, and what may be concluded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chordesk.tasks.cli.output import inert
from chordesk.tasks.views.backtests import BacktestView, SessionRow

# A year has 250; the first and the last ones show how it went, and --json has all of them.
_MOST_ROWS = 24


def backtest_report(found: BacktestView) -> RenderableType:
    """Return the whole report of a backtest, as far as it has come."""
    parts: list[RenderableType] = [_head(found), _sessions(found.rows)]
    missing = [row for row in found.rows if row.state == "missing"]
    parts += [Text(f"missing {row.day}: {inert(row.reason or 'unknown')}", style="yellow") for row in missing]
    parts += [Text(note, style="yellow") for row in found.rows for note in _prices(row)]
    if found.result and found.result.get("sessions"):
        parts += ["", *_result(found.result)]
    return Group(*parts)


def _head(found: BacktestView) -> Text:
    order = "screens in parallel, traders in order" if found.parallel else "days in order"
    resumed = f", resumed from {found.resumed}" if found.resumed else ""
    return Text.assemble(("Backtest ", "bold"), f"{len(found.rows)} of {found.sessions} sessions, {order}{resumed}")


def _sessions(rows: Sequence[SessionRow]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in ("Session", "Equity", "Cash", "Exposure", "Traded", "Orders", "Verdicts"):
        table.add_column(name, justify="left" if name in ("Session", "Orders", "Verdicts") else "right")
    shown = [*rows] if len(rows) <= _MOST_ROWS else [*rows[: _MOST_ROWS // 2], None, *rows[-_MOST_ROWS // 2 :]]
    for row in shown:
        table.add_row(*(_cells(row) if row is not None else ["..."] * 7))
    return table


def _prices(row: SessionRow) -> list[str]:
    """Return which positions of a session have no price of that session."""
    cases = (("at a close of an earlier session", row.stale), ("without a price", row.unpriced))
    return [f"{row.day}: {', '.join(map(inert, names))} {what}" for what, names in cases if names]


def _cells(row: SessionRow) -> list[str]:
    return [
        f"{row.day}",
        _money(row.equity),
        _money(row.cash),
        f"{row.exposure:.0%}" if row.exposure is not None else "-",
        _money(row.traded),
        _counts(row.orders),
        _counts(row.verdicts),
    ]


def _result(result: Mapping[str, Any]) -> list[RenderableType]:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in ("", "Desk", "Universe held", "Equal weight"):
        table.add_column(name, justify="left" if not name else "right")
    for title, key in (("return", "returns"), ("drawdown", "drawdown")):
        table.add_row(title, *(_share(result[key][name]) for name in ("desk", "held", "equal_weight")))
    turnover, exposure = result.get("turnover"), result.get("exposure")
    turned = f"{turnover:.2f} times its equity" if turnover is not None else "unknown"
    lines: list[RenderableType] = [
        table,
        Text(f"turnover {turned}; mean exposure {_share(exposure)}; costs {result['costs']}"),
        Text(f"{result['turns']:,} turns, {result['tokens']:,} tokens"),
        "",
        Text(f"Share of names that {result['question'].replace('beats', 'beat')}", style="bold"),
        _rates([*result["ratings"], *result["lenses"], *result["roles"]]),
    ]
    lines += [Text(_voice(row)) for row in result["voices"]]
    lines += [Text(note, style="dim") for note in _unscored(result)]
    return [*lines, "", Text(result["conclusion"], style="bold")]


def _rates(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in ("Claim", "n", "Dates", "Share", "95 %", "Error by date"):
        table.add_column(name, justify="left" if name == "Claim" else "right")
    for row in rows:
        bounds = f"{row['low']:.0%}-{row['high']:.0%}" if row["n"] else "-"
        error = _share(row["error"]) if row["error"] is not None else "-"
        table.add_row(row["group"], str(row["n"]), str(row["dates"]), _share(row["share"]), bounds, error)
    return table


def _voice(row: Mapping[str, Any]) -> str:
    error = f" +- {row['error']:.4f}" if row["error"] is not None else ""
    return (
        f"{row['voice']}: Brier {row['brier']:.3f}, alpha {row['alpha']:+.4f}{error} over {row['questions']} questions"
    )


def _unscored(result: Mapping[str, Any]) -> list[str]:
    """Return what of the voices has no score, and why. A result of an earlier version states no rounds."""
    if waiting := result.get("forecasts_waiting"):
        return [f"voices: {waiting} forecasts without a score, whose questions had no outcome by the last session"]
    if result["voices"]:
        return []
    return ["voices: they forecast nothing" if result.get("rounds") else "voices: none took part (--rounds lets them)"]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _money(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"


def _counts(found: Mapping[str, int]) -> str:
    return " ".join(f"{name}:{count}" for name, count in found.items()) or "-"
