"""Terminal text about tokens, budgets and what they cost. Pure: data in, plain text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from models.prices import AS_OF, LISTED
from tasks.engine.budgets import BudgetUse, Cost
from tasks.views.outlook import Outlook


def tokens(count: int | None) -> str:
    """Return a count of tokens; a missing one is not a zero."""
    return f"{count:,} tokens" if count is not None else "tokens not counted"


def cost(found: Cost) -> str:
    """Return the estimate in one line, with what it leaves out."""
    parts = []
    if found.usd is not None:
        left_out = found.unpriced or found.uncounted
        parts.append(f"{'at least' if left_out else 'about'} {found.usd:,.2f} USD")
    if found.unpriced:
        parts.append(f"the price of {', '.join(found.unpriced)} is unknown (DESK_PRICES)")
    if found.uncounted:
        parts.append(f"the provider counted no tokens of {found.uncounted} turns")
    if found.rules:
        parts.append("no price for rules, which are no model")
    return "; ".join(parts) or "none yet"


def budgets(found: Sequence[BudgetUse]) -> str:
    """Return the use of each budget in one line."""
    return ", ".join(f"{one.used:,} of {one.limit:,} tokens of the {one.scope}" for one in found) or "none is set"


def figures(summary: Mapping[str, Any]) -> list[str]:
    """Return lines about a run that has ended, from its stored summary; none of a summary of earlier versions."""
    if "cost" not in summary:
        return []
    lines = [
        f"cost: {cost(Cost.model_validate(summary['cost']))}",
        f"budgets: {budgets([BudgetUse.model_validate(one) for one in summary['budgets']])}",
    ]
    counted = {"hits by lens": summary["lenses"], "tools called": summary["tools"]}
    return lines + [f"{name}: {tally(counts)}" for name, counts in counted.items() if counts]


def outlook(found: Outlook) -> list[str]:
    """Return lines about a run that begins: its budgets, the prices of its models, and what the last one cost."""
    limits = (f"{one.limit:,} tokens a {one.scope}, {one.used:,} used ({one.setting})" for one in found.budgets)
    lines = [f"budgets: {', '.join(limits) or 'none is set'}"]
    models = [f"{model}: {_price(model, price)}" for model, price in found.prices.items()]
    lines.append(f"prices: {'; '.join(models) or 'none, rules are no model'}")
    if found.last_tokens is not None and found.last_cost is not None:
        lines.append(f"the last {found.kind} used {found.last_tokens:,} tokens, cost: {cost(found.last_cost)}")
    return lines


def tally(counts: Mapping[str, int]) -> str:
    """Return counts with their names."""
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _price(model: str, price: str | None) -> str:
    if price is None:
        return "unknown (DESK_PRICES)"
    listed = f" (listed {AS_OF})" if model in LISTED and str(LISTED[model]) == price else ""
    return f"{price}, USD a million tokens{listed}"
