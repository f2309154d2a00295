"""Boards in real time, with the wires of a far side on loopback."""

from __future__ import annotations

from typing import Any

from models.board.questions import BoardQuestion
from models.database.store import Store
from models.settings import Settings
from tests.tools.harvest.boards import SECONDS
from tests.tools.market.far_market import FarMarket
from tools.harvest.context import HarvestContext, symbols_of
from tools.market.clock import LiveClock
from tools.registry import ToolContext


def live_board(settings: Settings, store: Store | None, *questions: BoardQuestion, **changes: Any) -> HarvestContext:
    market = FarMarket(clock=LiveClock())  # type: ignore[arg-type]
    tool = ToolContext(market, market.clock, store, settings.model_copy(update=changes), "paper", None)
    return HarvestContext(tool, questions, symbols_of(questions), SECONDS)
