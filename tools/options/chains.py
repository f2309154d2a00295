"""Chains for tools: fetched symbol by symbol within a call's time, checked, each gap stated."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chordesk.models.contracts import ChainRow, OptionChain
from chordesk.models.errors import DeskError, NotConfigured
from chordesk.tools.history import Budget
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.quotes import chain_of
from chordesk.tools.options.quotes import usable_rows
from chordesk.tools.registry import Gaps, ToolContext

CHAIN = "option chain"  # what is missing, in an answer's gaps


class UsableChain(NamedTuple):
    """A chain and those of its rows that can be used."""

    chain: OptionChain
    rows: list[ChainRow]


def usable_chains(
    context: ToolContext, symbols: Sequence[str], first: int, last: int, gaps: Gaps
) -> Iterator[UsableChain]:
    """Yield the chain of each symbol that has one. first, last: days to expiry. A market without chains is one gap for
    all symbols."""
    budget = Budget(context)
    for symbol in symbols:
        try:
            budget.spend()
            yield usable_chain(context, symbol, *_between(context, first, last), gaps)
        except NotConfigured as error:
            gaps.add(CHAIN, error)
            return
        except DeskError as error:
            gaps.add(CHAIN, error, symbol)


def usable_chain(context: ToolContext, symbol: str, first: dt.date, last: dt.date, gaps: Gaps) -> UsableChain:
    """Return the chain of one symbol. Raises DeskError when the market gives none."""
    chain = chain_of(context.market, symbol, first, last)
    today, quoted = exchange_day(context.clock.now()), exchange_day(chain.at)
    if quoted < today:
        reason = f"its quotes are of {quoted}, {(today - quoted).days} days before {today}"
        gaps.add("quotes of today", reason, symbol)
    found = usable_rows(chain, today, gaps)
    return UsableChain(chain, [row for row in found if first <= row.contract.expiry <= last])


def _between(context: ToolContext, first: int, last: int) -> tuple[dt.date, dt.date]:
    today = exchange_day(context.clock.now())
    return today + dt.timedelta(days=first), today + dt.timedelta(days=last)
