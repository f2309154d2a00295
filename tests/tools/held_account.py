"""An account that holds what a test says."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest

from chordesk.models.database.store import Store
from chordesk.models.tables.orders import Account, Position
from chordesk.tools.registry import ToolContext
from tests.tools.conftest import MakeContext
from tests.tools.market.far_market import FarMarket

BEFORE = dt.datetime(2010, 8, 9, 13, 30, tzinfo=dt.UTC)
Hold = Callable[..., ToolContext]


@pytest.fixture
def hold(store: Store, make_context: MakeContext) -> Hold:
    """An account with so much cash and (symbol, quantity)."""

    def hold(market: FarMarket, *rows: tuple[str, float], cash: float = 0.0, **changes: float) -> ToolContext:
        with store.session() as session:
            session.add(Account(name="paper", cash=cash))
            session.flush()
            session.add_all(
                Position(account="paper", symbol=symbol, quantity=quantity, average_cost=1, filled_at=BEFORE)
                for symbol, quantity in rows
            )
        return make_context(market, store, **changes)

    return hold
