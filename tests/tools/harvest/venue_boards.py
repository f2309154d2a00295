"""Boards in real time, with the wires of a far side on loopback."""

from __future__ import annotations

from typing import Any

from chordesk.models.board import BoardQuestion
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.tools.board.context import HarvestContext, symbols_of
from chordesk.tools.market.clock import LiveClock
from chordesk.tools.registry import ToolContext
from tests.tools.harvest.boards import SECONDS
from tests.tools.market.far_market import FarMarket


def live_board(settings: Settings, store: Store | None, *questions: BoardQuestion, **changes: Any) -> HarvestContext:
    market = FarMarket(clock=LiveClock())  # type: ignore[arg-type]
    tool = ToolContext(market, market.clock, store, settings.model_copy(update=changes), "paper", None)
    return HarvestContext(tool, questions, symbols_of(questions), SECONDS)
