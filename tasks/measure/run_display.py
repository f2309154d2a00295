"""A backtest on a terminal: its sessions, what it came to, and how far that is from chance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.models.money import coded
from chordesk.models.text import inert
from chordesk.tasks.cli.output import table, tally

if TYPE_CHECKING:
    from chordesk.models.tables.runs import BacktestSession
    from chordesk.tasks.measure.run_view import BacktestView

# A year has 250; the first and the last ones show how it went, and --json has all of them.
_MOST_ROWS = 24


def backtest_report(found: BacktestView) -> RenderableType:
    parts: list[RenderableType] = [_head(found), _sessions(found.rows, found.currency)]
    missing = [row for row in found.rows if row.state != "done"]
    parts += [Text(f"{row.state} {row.day}: {inert(row.reason or 'unknown')}", style="yellow") for row in missing]
    parts += [Text(note, style="yellow") for row in found.rows for note in _prices(row)]
    if found.result and found.result.get("sessions"):
        parts += ["", *_result(found.result)]
    return Group(*parts)


def _head(found: BacktestView) -> Text:
    order = "screens in parallel, traders in order" if found.parallel else "days in order"
    resumed = f", resumed from {found.resumed}" if found.resumed else ""
    return Text.assemble(("Backtest ", "bold"), f"{len(found.rows)} of {found.sessions} sessions, {order}{resumed}")


def _sessions(rows: Sequence[BacktestSession], currency: str) -> RenderableType:
    shown = [*rows] if len(rows) <= _MOST_ROWS else [*rows[: _MOST_ROWS // 2], None, *rows[-_MOST_ROWS // 2 :]]
    cells = [_cells(row, currency) if row is not None else ["..."] * 7 for row in shown]
    columns = ("Session", "Equity", "Cash", "Exposure", "Traded", "Orders", "Verdicts")
    return table(columns, cells, right=columns[1:5])


def _prices(row: BacktestSession) -> list[str]:
    """Return which positions of a session have no price of that session."""
    cases = (("at a close of an earlier session", row.stale), ("without a price", row.unpriced))
    return [f"{row.day}: {', '.join(map(inert, names))} {what}" for what, names in cases if names]


def _cells(row: BacktestSession, currency: str) -> list[str]:
    return [
        f"{row.day}",
        _money(row.equity, currency),
        _money(row.cash, currency),
        f"{row.exposure:.0%}" if row.exposure is not None else "-",
        _money(row.traded, currency),
        tally(row.orders, "-"),
        tally(row.verdicts, "-"),
    ]


def _result(result: Mapping[str, Any]) -> list[RenderableType]:
    columns = ("", "Desk", "Universe held", "Equal weight")
    rows = [
        (title, *(_share(result[key][name]) for name in ("desk", "held", "equal_weight")))
        for title, key in (("return", "returns"), ("drawdown", "drawdown"))
    ]
    turnover, exposure = result.get("turnover"), result.get("exposure")
    turned = f"{turnover:.2f} times its equity" if turnover is not None else "unknown"
    risk = f", {result['position_risk']:.2%} at risk an entry" if "position_risk" in result else ""
    lines: list[RenderableType] = [
        table(columns, rows, right=columns[1:]),
        Text(f"turnover {turned}; invested on average {_share(exposure)}{risk}; costs {result['costs']}"),
        *_orders(result),
        Text(f"{result['turns']:,} turns, {result['tokens']:,} tokens"),
        *_performance(result.get("performance")),
        "",
        Text(f"Share of names that {result['question'].replace('beats', 'beat')}", style="bold"),
        table(_RATES, [*result["ratings"], *result["lenses"], *result["roles"]], right=list(_RATES)[1:]),
    ]
    lines += [Text(_voice(row)) for row in result["voices"]]
    lines += [Text(note, style="dim") for note in _unscored(result)]
    return [*lines, "", Text(result["conclusion"], style="bold")]


def _orders(result: Mapping[str, Any]) -> list[Text]:
    named = {"orders": result.get("orders"), "denied": result.get("denials")}
    texts = [f"{name}: {tally(counts)}" for name, counts in named.items() if counts]
    return [Text("; ".join(texts))] if texts else []


def _performance(found: Mapping[str, Any] | None) -> Iterable[RenderableType]:
    if found is None:
        return
    columns = ("Less", "Its return", "A step", "95 %")
    beta = f", beta {found['beta']:.2f}" if found["beta"] is not None else ""
    differences = [
        (row["name"], _share(row["returned"]), _step(row["mean"]) + "*" * row["told"], _bounds(row, _step))
        for row in found["differences"]
    ]
    measures = [(row["name"], _figure(row["value"]), _bounds(row, _figure)) for row in found["measures"]]
    yield ""
    yield table(columns, differences, right=columns[1:], title=f"Desk less each, {found['steps']} steps{beta}")
    yield ""
    yield table(("Figure", "", "95 %"), measures, right=("", "95 %"))
    yield from map(Text, _against_chance(found))


def _against_chance(found: Mapping[str, Any]) -> Iterable[str]:
    if (drawn := found["random"]) is not None:
        low, median, high = (f"{drawn[name]:+,.0f}" for name in ("low", "median", "high"))
        yield (
            f"{drawn['lots']} lots of shares made {drawn['desk']:+,.0f}; the same entries in random names {median} "
            f"({low} to {high}), {drawn['share']:.1%} of them less"
        )
    if cash := found.get("cash"):
        yield f"idle cash counts with {cash:.4%} a step, in the desk's return and in the benchmarks'"
    if (deflated := found["deflated"]) is not None:
        yield f"the Sharpe ratio beats the best of {found['trials']} by chance with probability {deflated:.0%}"
    if (overfitted := found["overfitting"]) is not None:
        yield f"the best of {found['trials']} configurations is overfitted with probability {overfitted:.0%}"
    yield "* is told from 0 among all benchmarks"


def _bounds(row: Mapping[str, Any], shown: Callable[[float], str]) -> str:
    low, high = row["low"], row["high"]
    return str(row["lack"]) if low is None or high is None else f"{shown(low)} to {shown(high)}"


def _step(value: float) -> str:
    return f"{value:+.3%}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


_RATES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "Claim": lambda row: row["group"],
    "n": lambda row: str(row["n"]),
    "Effective": lambda row: f"{row['effective']:.0f}" if row.get("effective") is not None else "-",
    "Dates": lambda row: str(row["dates"]),
    "Share": lambda row: _share(row["share"]),
    "95 %": lambda row: _between(row) + ("*" if row.get("told") else ""),
}


def _between(row: Mapping[str, Any]) -> str:
    if row.get("low") is None or row.get("high") is None:
        return "too few"
    return f"{row['low']:.0%} to {row['high']:.0%}"


def _voice(row: Mapping[str, Any]) -> str:
    bounds = f"{row['low']:+.4f} to {row['high']:+.4f}" if row.get("low") is not None else "too few"
    return (
        f"{row['voice']}: Brier {row['brier']:.3f}, alpha {row['alpha']:+.4f} ({bounds}), {row['questions']} questions"
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


def _money(value: float | None, currency: str) -> str:
    return "unknown" if value is None else coded(f"{value:,.0f}", currency)
