"""Sizes of orders as text: shares, or contracts with their expiry and strike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chordesk.models.contracts import legs_of, parse_contract
from chordesk.tools.decimals import exact, plain


def size_text(quantity: float, contract: str | None) -> str:
    """Return a number of shares, or of contracts and which they are: "2 contracts 2026-12-18 put 180"."""
    count = count_text(quantity)
    if contract is None:
        return f"{count} {'share' if quantity == 1 else 'shares'}"
    return f"{count} {'contract' if quantity == 1 else 'contracts'} {contract_text(contract)}"


def legs_text(legs: Iterable[Mapping[str, Any]] | None) -> str:
    """Return the legs of an order: "sell 1 2026-12-18 put 180, buy 1 2026-12-18 put 170"."""
    return ", ".join(f"{leg.side} {leg.ratio} {contract_text(leg.contract)}" for leg in legs_of(legs))


def units_text(quantity: float, contract: str | None, legs: Sequence[Mapping[str, Any]] | None) -> str:
    """Return the size of any order; of one with legs its units and what a unit is."""
    if not legs:
        return size_text(quantity, contract)
    return f"{count_text(quantity)} {'unit' if quantity == 1 else 'units'} of ({legs_text(legs)})"


def count_text(quantity: float) -> str:
    """Return a quantity in full, thousands separated."""
    return f"{exact(quantity):,f}" if quantity % 1 else f"{int(quantity):,}"


def contract_text(contract: str) -> str:
    """Return expiry, kind and strike of an OCC symbol; the text itself where it names no contract."""
    found = parse_contract(contract)
    return contract if found is None else f"{found.expiry} {found.kind} {plain(found.strike)}"
