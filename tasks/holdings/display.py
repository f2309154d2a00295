"""What `desk holdings` shows on a terminal: a file before it is kept, and the accounts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.models.holdings.settings import HoldingsSettings
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import own_settings
from chordesk.models.statements import Holding, Read
from chordesk.models.text import one_line
from chordesk.tasks.cli.output import table
from chordesk.tools.decimals import money, plain
from chordesk.tools.holdings.keeping import OutsideAccount, Plan
from chordesk.tools.holdings.portfolio_view import (
    AccountRow,
    HoldingRow,
    PortfolioView,
    Weight,
    sessions_since,
)

SHOWN_ROWS, SHOWN_LEFT = 12, 6


def plan_lines(read: Read, plans: Sequence[Plan]) -> Iterator[str]:
    """Yield what an import would keep: accounts, holdings, totals, what was left out and why."""
    how = f", summed from {read.summed} rows" if read.summed is not None else ""
    yield f"{read.shown}{how}"
    for plan in plans:
        found = plan.statement
        number = f" (...{found.number[-4:]})" if found.number else ""
        yield f"{plan.name}{number} as of {found.as_of}: {_summary(found.holdings)}"
        for row in found.holdings[:SHOWN_ROWS]:
            yield f"  {_row(row)}"
        if len(found.holdings) > SHOWN_ROWS:
            yield f"  and {len(found.holdings) - SHOWN_ROWS} more"
        for one in found.totals:
            yield f"  total of {one.what}: {money(one.stated)} {one.currency}, as its rows come to".rstrip()
        if not found.totals:
            yield "  the file states no total of it"
        if plan.before is not None and not plan.same:
            yield f"  in place of {len(plan.before.positions)} holdings as of {plan.before.as_of}"
            yield from _changes(plan.before, found.holdings)
    for left in read.left_out[:SHOWN_LEFT]:
        yield f"left out, row {left.line}: {left.text!r}: {left.why}"
    if len(read.left_out) > SHOWN_LEFT:
        yield f"left out: {len(read.left_out) - SHOWN_LEFT} more rows"
    for note in read.notes:
        yield f"note: {note}"


def _summary(rows: Sequence[Holding]) -> str:
    nameless = [row for row in rows if row.symbol is None and row.kind not in ("cash", "crypto")]
    priceless = sum(row.value is None and row.price is None and row.kind != "cash" for row in rows)
    shorts = sum(row.quantity < 0 for row in rows)
    text = f"{len(rows)} holding{'s' * (len(rows) != 1)}"
    text += f", {shorts} short" if shorts else ""
    text += f", {priceless} without a price in the file" if priceless else ""
    text += f", {len(nameless)} without a ticker (desk holdings map NAME TICKER)" if nameless else ""
    abroad = sorted({row.currency for row in rows if row.lacks_rate})
    return text + (f"; no rate of {', '.join(abroad)} (--rate {abroad[0]}=...)" if abroad else "")


def _row(row: Holding) -> str:
    name = row.symbol or row.isin or "-"
    what = f"{name}  {plain(row.quantity)}  {one_line(row.name, 40)}"
    if row.kind == "cash":
        what = f"cash  {money(row.quantity)}"
    value = "" if row.value is None or row.kind == "cash" else f"  value {money(row.value)}"
    return f"{what}{value}  {row.currency}{'  short' if row.quantity < 0 else ''}"


def _changes(before: OutsideAccount, after: Sequence[Holding]) -> Iterator[str]:
    old = {(one.row.key, one.row.currency): one.row.quantity for one in before.positions if one.row.kind != "cash"}
    new = {(row.key, row.currency): row.quantity for row in after if row.kind != "cash"}
    changed = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    for key in changed[:SHOWN_ROWS]:
        yield f"  {key[0]}: {plain(old.get(key, Decimal(0)))} before, {plain(new.get(key, Decimal(0)))} now"
    if len(changed) > SHOWN_ROWS:
        yield f"  and {len(changed) - SHOWN_ROWS} more changes"


def account_rows(found: Sequence[OutsideAccount], settings: Settings) -> list[dict[str, Any]]:
    stale, today = own_settings(settings, HoldingsSettings).stale_sessions, dt.date.today()
    return [
        {
            "account": one.name,
            "source": one.source,
            "as_of": one.as_of.isoformat(),
            "sessions_old": (old := sessions_since(one.as_of, today)),
            "stale": old > stale,
            "holdings": len(one.positions),
            "summed_rows": one.summed,
            "home": one.home,
            "without_ticker": [
                each.row.isin or each.row.name
                for each in one.positions
                if each.symbol is None and each.row.kind not in ("cash", "crypto")
            ],
            "without_rate": sorted({each.row.currency for each in one.positions if each.row.lacks_rate}),
        }
        for one in found
    ]


def account_lines(rows: Sequence[dict[str, Any]]) -> RenderableType:
    made = table(
        {
            "Account": lambda row: row["account"],
            "From": lambda row: row["source"],
            "As of": lambda row: row["as_of"],
            "Sessions old": lambda row: Text(str(row["sessions_old"]), style="yellow" if row["stale"] else ""),
            "Holdings": lambda row: str(row["holdings"]),
            "Lacks": _lacks,
        },
        rows,
        right=("Sessions old", "Holdings"),
    )
    return Group(made, Text("desk holdings show: all accounts as one portfolio", style="dim"))


def _lacks(row: dict[str, Any]) -> str:
    parts = []
    if nameless := row["without_ticker"]:
        more = f" and {len(nameless) - 3} more" if len(nameless) > 3 else ""
        parts.append(f"tickers of {', '.join(one_line(one, 24) for one in nameless[:3])}{more}")
    if row["without_rate"]:
        parts.append(f"rates of {', '.join(row['without_rate'])}")
    if row["summed_rows"] is not None:
        parts.append(f"summed from {row['summed_rows']} rows of activity")
    return "; ".join(parts) or "nothing"


SHOWN_HOLDINGS = 30


def view_lines(view: PortfolioView) -> RenderableType:
    """Return all accounts as one portfolio, for a terminal."""
    least = "at least " if view.at_least else ""
    parts: list[RenderableType] = [
        Text(f"{least}{_money(view.value)} {view.currency} as of {view.as_of:%Y-%m-%d %H:%M %Z}", style="bold"),
        _accounts(view.accounts),
        _holdings(view.holdings[:SHOWN_HOLDINGS]),
    ]
    if len(view.holdings) > SHOWN_HOLDINGS:
        parts.append(Text(f"and {len(view.holdings) - SHOWN_HOLDINGS} more holdings (--json has them)", style="dim"))
    parts.append(Text(f"sectors: {_weights(view.sectors)}"))
    parts.append(Text(f"currencies: {_weights(view.currencies)}"))
    parts.append(
        Text(
            f"largest {_percent(view.largest)}, five largest {_percent(view.five)}; equal holdings as concentrated: "
            f"{_number(view.alike)}, independent ones as risky: {_number(view.bets)}"
        )
    )
    pairs = ", ".join(f"{one.first} and {one.second} {one.correlation:.2f}" for one in view.pairs) or "none known"
    covered = f"of {_percent(view.covered)} of the whole, over {view.sessions} sessions"
    parts.append(Text(f"correlation: {_number(view.correlation)} on average; most alike: {pairs}; {covered}"))
    days = ", ".join(f"{one.day} {one.change:+.2%}" for one in view.worst_days) or "not known"
    parts.append(Text(f"worst days with the holdings of now: {days}"))
    parts += [Text(f"missing: {one_line(line, 200)}", style="yellow") for line in view.missing[:SHOWN_ROWS]]
    if len(view.missing) > SHOWN_ROWS:
        parts.append(Text(f"missing: {len(view.missing) - SHOWN_ROWS} more", style="yellow"))
    return Group(*parts)


def _accounts(rows: Sequence[AccountRow]) -> RenderableType:
    columns = {
        "Account": lambda row: row.account,
        "From": lambda row: row.source,
        "As of": lambda row: "now" if row.as_of is None else row.as_of.isoformat(),
        "Sessions old": lambda row: Text(str(row.age), style="yellow" if row.stale else ""),
        "Holdings": lambda row: str(row.holdings),
        "Value": lambda row: ("at least " if row.at_least else "") + _money(row.value),
        "Weight": lambda row: _percent(row.weight),
    }
    return table(columns, rows, right=("Sessions old", "Holdings", "Value", "Weight"))


def _holdings(rows: Sequence[HoldingRow]) -> RenderableType:
    columns = {
        "Holding": lambda row: one_line(row.name, 32),
        "Sector": lambda row: row.sector or ("" if row.kind == "cash" else row.kind),
        "Currency": lambda row: row.currency,
        "Value": lambda row: _money(row.value),
        "Weight": lambda row: _percent(row.weight),
        "Accounts": lambda row: one_line(", ".join(row.accounts), 40),
        "Note": lambda row: one_line(row.missing or row.doubt, 60),
    }
    return table(columns, rows, right=("Value", "Weight"))


def _weights(rows: Sequence[Weight]) -> str:
    return ", ".join(f"{one.name} {_percent(one.weight)}" for one in rows) or "not known"


def _money(value: float | None) -> str:
    return "not known" if value is None else money(round(value, 2))


def _percent(value: float | None) -> str:
    return "not known" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:.2f}"


def effect_lines(before: PortfolioView, after: PortfolioView, symbol: str, amount: float, most: str) -> RenderableType:
    """Return what an order would do to the whole: shares of the symbol and its sector, concentration and worst day,
    before and after."""
    rows = [
        (symbol, _of(before, symbol), _of(after, symbol)),
        ("cash", _sum(before, "cash"), _sum(after, "cash")),
        ("equal holdings", _number(before.alike), _number(after.alike)),
        ("independent holdings", _number(before.bets), _number(after.bets)),
        ("mean correlation", _number(before.correlation), _number(after.correlation)),
        ("worst day", _worst(before), _worst(after)),
    ]
    sector = next((one.sector for one in after.holdings if one.symbol == symbol and one.sector), None)
    if sector is not None:
        rows.insert(1, (f"sector {sector}", _sum(before, sector), _sum(after, sector)))
    verb = "buy" if amount > 0 else "sell"
    return Group(
        Text(f"{verb} {money(abs(amount))} of {symbol}", style="bold"),
        table(("Of the whole", "Before", "After"), rows, right=("Before", "After")),
        Text(most),
    )


def _of(view: PortfolioView, symbol: str) -> str:
    return _percent(sum(one.weight or 0.0 for one in view.holdings if one.symbol == symbol))


def _sum(view: PortfolioView, sector: str) -> str:
    return _percent(sum(one.weight for one in view.sectors if one.name == sector))


def _worst(view: PortfolioView) -> str:
    return f"{view.worst_days[0].change:+.2%}" if view.worst_days else "not known"
