"""Terminal output of portfolio research: by holding, the roles that ran and why, and when the others are due."""

from __future__ import annotations

from collections.abc import Iterable
from zoneinfo import ZoneInfo

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chordesk.tasks.cli.output import inert
from chordesk.tasks.workflows.portfolio import ExecutedRole, HoldingResult, PortfolioResearchResult, SkippedRole, signed

_NEW_YORK = ZoneInfo("America/New_York")


def portfolio_research(result: PortfolioResearchResult) -> RenderableType:
    ran = sum(len(one.executed_roles_with_reasons) for one in result.holdings)
    skipped = sum(len(one.skipped_roles) for one in result.holdings)
    parts: list[RenderableType] = [
        Text.assemble(("Portfolio research: ", "bold"), f"roles run {ran}, skipped {skipped}")
    ]
    for one in result.holdings:
        parts += _holding(one)
    return Group(*parts)


def _holding(one: HoldingResult) -> Iterable[RenderableType]:
    price = "not known" if one.price is None else f"{one.price:,.2f}"
    yield Text(f"  {one.symbol:<7}price {price}, unrealized {signed(one.unrealized)}")
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style="dim", no_wrap=True, width=8)
    grid.add_column()
    for place, ran in enumerate(one.executed_roles_with_reasons):
        grid.add_row("" if place else "ran", Text(_ran(ran)))
    for place, role in enumerate(one.skipped_roles):
        grid.add_row("" if place else "skipped", Text(_skipped(role), style="dim"))
    for place, gap in enumerate(one.missing):
        grid.add_row("" if place else "missing", Text(f"{inert(gap)}: no role becomes due by it", style="yellow"))
    yield Padding(grid, (0, 0, 0, 9), expand=False)


def _ran(role: ExecutedRole) -> str:
    return f"{role.role} ({role.why}): {role.verdict or role.status}"


def _skipped(role: SkippedRole) -> str:
    due = role.due_at.astimezone(_NEW_YORK)
    return f"{role.role}: due {due:%Y-%m-%d %H:%M %Z}; {inert(role.why)}"
