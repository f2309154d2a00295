"""Amounts as text: shares and contracts, tokens, budgets and what they cost. Pure: data in, plain text out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chordesk.models.exchanges import CRYPTO, exchange_code
from chordesk.models.market import legs_of, parse_contract
from chordesk.models.model_prices import AS_OF, NO_PRICE, is_listed
from chordesk.models.text import span
from chordesk.tasks.cli.output import tally
from chordesk.tasks.engine.budgets import BudgetUse, Cost, Reused
from chordesk.tools.decimals import exact, plain

if TYPE_CHECKING:
    from chordesk.tasks.reading.outlook import LocalTime, Outlook


def size_text(quantity: float, contract: str | None, symbol: str = "") -> str:
    """Return a number of shares, of coins of a pair, or of contracts and which they are: "2 contracts 2026-12-18 put
    180"."""
    count = count_text(quantity)
    if contract is None and exchange_code(symbol) == CRYPTO:
        return f"{count} {symbol.partition('-')[0]}"
    if contract is None:
        return f"{count} {'share' if quantity == 1 else 'shares'}"
    return f"{count} {'contract' if quantity == 1 else 'contracts'} {contract_text(contract)}"


def legs_text(legs: Iterable[Mapping[str, Any]] | None) -> str:
    """Return the legs of an order: "sell 1 2026-12-18 put 180, buy 1 2026-12-18 put 170"."""
    return ", ".join(f"{leg.side} {leg.ratio} {contract_text(leg.contract)}" for leg in legs_of(legs))


def units_text(
    quantity: float, contract: str | None, legs: Sequence[Mapping[str, Any]] | None, symbol: str = ""
) -> str:
    """Return the size of any order; of one with legs its units and what a unit is."""
    if not legs:
        return size_text(quantity, contract, symbol)
    return f"{count_text(quantity)} {'unit' if quantity == 1 else 'units'} of ({legs_text(legs)})"


def count_text(quantity: float) -> str:
    """Return a quantity in full, thousands separated."""
    return f"{exact(quantity):,f}" if quantity % 1 else f"{int(quantity):,}"


def contract_text(contract: str) -> str:
    """Return expiry, kind and strike of an OCC symbol; the text itself where it names no contract."""
    found = parse_contract(contract)
    return contract if found is None else f"{found.expiry} {found.kind} {plain(found.strike)}"


def tokens(count: int | None) -> str:
    """Return a count of tokens; a missing one is not a zero."""
    return f"{count:,} tokens" if count is not None else "tokens not counted"


def budgets(found: Sequence[BudgetUse]) -> str:
    return ", ".join(f"{one.used:,} of {one.limit:,} tokens of the {one.scope}" for one in found) or "none is set"


def figures(summary: Mapping[str, Any]) -> list[str]:
    """Return lines about a run that has ended, from its stored summary; none of a summary of earlier versions."""
    if "cost" not in summary:
        return []
    lines = [
        f"cost: {Cost.model_validate(summary['cost'])}",
        f"budgets: {budgets([BudgetUse.model_validate(one) for one in summary['budgets']])}",
    ]
    if (again := summary.get("reused")) is not None:
        lines.append(f"reused: {Reused.model_validate(again)}")
    counted = {"hits by lens": summary["lenses"], "tools called": summary["tools"]}
    return lines + [f"{name}: {tally(counts)}" for name, counts in counted.items() if counts]


def outlook(found: Outlook) -> list[str]:
    """Return lines about a run that begins: its budgets, the prices of its models, and what the last one cost."""
    limits = (f"{one.limit:,} tokens a {one.scope}, {one.used:,} used ({one.setting})" for one in found.budgets)
    lines = [f"budgets: {', '.join(limits) or 'none is set'}"]
    models = [f"{model}: {_price(model, price)}" for model, price in found.prices.items()]
    lines.append(f"prices: {'; '.join(models) or 'none, rules are no model'}")
    if found.last_tokens is not None and found.last_cost is not None:
        lines.append(f"the last {found.kind} used {found.last_tokens:,} tokens, cost: {found.last_cost}")
    return lines + times(found.local) + too_long(found.seconds, found.allowed)


def times(found: Sequence[LocalTime]) -> list[str]:
    """Return lines about how long turns take on local models, and what their contexts have no room for."""
    return [line for one in found for line in (_time(one), _context(one)) if line]


def _time(one: LocalTime) -> str:
    turns = f"{one.turns} turns" if one.turns > 1 else "one turn"
    if one.seconds is None or one.read_speed is None or one.write_speed is None:
        why = "its speed was not measured; `desk doctor` does it"
        return f"{one.model}: time unknown for at most {turns} ({one.at_once} at once): {why}"
    speeds = f"{one.write_speed:,.0f} tokens/s written, {one.read_speed:,.0f} read; measured {one.measured}"
    line = f"{one.model}: about {span(one.seconds)} for at most {turns} ({one.at_once} at once, {speeds})"
    what = "tokens are assumed, without reasoning, for roles that have had no turn"
    return f"{line}; {what}: {', '.join(one.assumed)}" if one.assumed else line


def _context(one: LocalTime) -> str:
    if one.context is None:
        return f"{one.model}: its context is not known, and prompts are not fitted to it; `desk doctor` asks the server"
    if one.symbols is not None:
        return f"{one.model}: {one.symbols} symbols a screener's turn, for its context has {one.context:,} tokens"
    return ""


def too_long(seconds: float | None, allowed: float) -> list[str]:
    """Return a line where a run takes longer than it may, with what to set; seconds: None where it is not known."""
    if seconds is None or seconds <= allowed:
        return []
    minutes = math.ceil(seconds / 60 * 1.5 / 10) * 10
    remedy = f"set DESK_RUN_DEADLINE_MINUTES={minutes}, or give it less to do"
    return [f"that is longer than a run may take, {span(allowed)}: {remedy}; it ends as partial then"]


def _price(model: str, price: str | None) -> str:
    if price is None:
        return "unknown (DESK_PRICES)"
    if price == NO_PRICE:
        return price
    listed = f" (listed {AS_OF})" if is_listed(model, price) else ""
    return f"{price}, USD a million tokens{listed}"
