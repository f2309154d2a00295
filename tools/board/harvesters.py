"""The harvesters of a board, an entry each, and how one is run.

To add one: its module, with a function from the context to a harvest, and its entry here.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace

import orjson
import structlog

from chordesk.models.board.forecasts import Harvest
from chordesk.models.errors import DeskError
from chordesk.models.text import without_secrets
from chordesk.tools.board import portfolio_signals, price_signals, symbol_signals, venue_signals
from chordesk.tools.board.harvest_context import NO_SYMBOL, EarlierVote, HarvestContext, LensHit, asleep
from chordesk.tools.model_tools.company_data import plain_text

__all__ = ["HARVESTERS", "EarlierVote", "HarvestContext", "Harvester", "LensHit", "Tombstone", "run_harvester"]

log = structlog.get_logger(__name__)
MAX_DATA_BYTES = 2048  # of one finding
MAX_REASON = 200


@dataclass(frozen=True, slots=True)
class Harvester:
    """One tool of the board. tool: its key, which is also the begin of its signals' labels; title: for people."""

    tool: str
    title: str
    function: Callable[[HarvestContext], Harvest]
    of_symbols: bool = True  # has nothing to say where no question is about a symbol of the market

    def harvest(self, context: HarvestContext) -> Harvest:
        return asleep(NO_SYMBOL) if self.of_symbols and not context.symbols else self.function(context)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Why a tool failed, without secrets, at most 200 characters. retryable: whether it may work when tried again."""

    reason: str
    retryable: bool = False


HARVESTERS: Mapping[str, Harvester] = {
    one.tool: one
    for one in (
        Harvester("screen", "Hits of the latest screen", symbol_signals.screen_signals, of_symbols=False),
        Harvester("momentum", "Momentum of 20 and 60 sessions", price_signals.momentum_signals),
        Harvester("reversal", "Reversal of 5 sessions", price_signals.reversal_signals),
        Harvester("volatility", "Realised volatility and drawdown", price_signals.volatility_signals),
        Harvester("portfolio", "Heat and sizes", portfolio_signals.holding_signals, of_symbols=False),
        Harvester("factors", "Crowding and consensus", price_signals.crowding_signals, of_symbols=False),
        Harvester("divergence", "Prices of two venues", venue_signals.divergence_signals, of_symbols=False),
        Harvester("funding", "Funding rates", venue_signals.funding_signals, of_symbols=False),
        Harvester("temporal", "Patterns of 5 against 20 sessions", price_signals.temporal_signals),
        Harvester("options", "Implied volatility and option volume", symbol_signals.option_signals),
        Harvester("headlines", "Headlines", symbol_signals.headline_signals),
        Harvester("record", "Outcomes of a question's series", portfolio_signals.record_signals, of_symbols=False),
        Harvester("events", "Calendar of earnings", symbol_signals.earnings_signals),
    )
}


def run_harvester(harvester: Harvester, context: HarvestContext) -> Harvest | Tombstone:
    """Return a harvester's findings, or why it failed or took too long. A thread that is too late ends by itself."""
    future: Future[Harvest] = Future()
    limited = _limited(context)

    def work() -> None:
        try:
            future.set_result(_checked(harvester.harvest(limited), limited))
        except BaseException as error:
            future.set_exception(error)

    inherited = contextvars.copy_context()
    threading.Thread(target=inherited.run, args=(work,), name=f"harvest-{harvester.tool}", daemon=True).start()
    try:
        return future.result(context.seconds)
    except DeskError as error:
        return Tombstone(_reason(str(error)), error.retryable)
    except TimeoutError:
        return Tombstone(f"no answer within {context.seconds:g} s", retryable=True)
    except Exception as error:
        # Its text could hold anything; the log has it.
        log.exception("harvest.failed", tool=harvester.tool)
        return Tombstone(f"failed with {type(error).__name__}")


def _limited(context: HarvestContext) -> HarvestContext:
    settings = context.tool.settings.model_copy(update={"tool_seconds": context.seconds})
    return replace(context, tool=replace(context.tool, settings=settings))


def _reason(text: str) -> str:
    """Secrets are looked for in the whole text: half a key looks like none."""
    return plain_text(without_secrets(text), MAX_REASON)


def _checked(found: Harvest, context: HarvestContext) -> Harvest:
    """Return the harvest; raise DeskError when a finding is too large for a board, or later than now."""
    now = context.tool.clock.now()
    for finding in found.findings:
        size = len(orjson.dumps(finding.data))
        if size > MAX_DATA_BYTES:
            raise DeskError(f"the data of a finding are {size} bytes, more than {MAX_DATA_BYTES}")
        if finding.as_of > now:
            raise DeskError(f"a finding is of {finding.as_of:%Y-%m-%d %H:%M}, later than now")
    return found
