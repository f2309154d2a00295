"""The context of a backtest's orders: the paper broker on the backtest's own account, and nothing else."""

from __future__ import annotations

from chordesk.models.database.store import Store
from chordesk.models.errors import OrderError
from chordesk.models.settings import Settings
from chordesk.models.settings.accounts import PAPER, is_backtest
from chordesk.tools.brokers.paper import PaperBroker
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders.records.fence import FencingLease
from chordesk.tools.orders.submitting import SubmissionContext

OWNER = "backtest"


def simulated_context(store: Store, settings: Settings, market: MarketData) -> SubmissionContext:
    """Return the context of a backtest's orders on one day. settings: those of its run.

    Each call is its own submitter: the step that holds the day's work is the only one, and an older one that was
    thought dead is fenced off. Raises OrderError for an account that is not a backtest's, another broker than paper or
    a market of real time: past days may reach no broker that is not simulated.
    """
    if not is_backtest(settings.account):
        raise OrderError(f"the account {settings.account} is not a backtest's", remedy="`desk backtest` opens one")
    if settings.broker != PAPER or market.clock.day is None:
        here = f"broker {settings.broker}, market {market.name}"
        raise OrderError(f"a backtest fills on paper and on past days alone; this is {here}", remedy="`desk backtest`")
    broker = PaperBroker(store, market, settings, settings.account)
    return SubmissionContext(store, settings, market, broker, FencingLease(store, settings.account, OWNER))
