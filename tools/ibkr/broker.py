"""The Interactive Brokers broker, paper and live: shares, each order sent once, over one connection to IB Gateway.

An order is looked up by its reference in three lists: open orders, orders that ended today, today's fills. None of them
having it says that it is not there only on a connection that is younger than the send.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import structlog
from ib_async.contract import Contract

from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError
from chordesk.models.ibkr.settings import IbkrSettings
from chordesk.models.orders import AccountView, BrokerAnswer, BrokerState, OrderTicket
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import own_settings
from chordesk.models.settings.variables import broker_keys
from chordesk.models.tables.orders import Preview
from chordesk.models.text import NEW_YORK
from chordesk.tools.ibkr import shapes, shares
from chordesk.tools.ibkr.gateway import Gateway, Place
from chordesk.tools.ibkr.inbox import GatewaySilent
from chordesk.tools.ibkr.journal import Journal
from chordesk.tools.ibkr.turn import Turn
from chordesk.tools.market.protocol import MarketClock, MarketData

PORTS = {"ibkr-paper": 4002, "ibkr-live": 4001}
REQUEST_SECONDS = 10.0  # of one question, from the first byte to the last
TURN_SECONDS = 45.0  # another process ends what it does with the connection in this time
LOOK_SECONDS = 0.25  # between two looks for another process that waits
TROUBLE_SECONDS = 3.0  # that a connection which was waited for in vain is not tried again
AGAIN_SECONDS = 5.0  # from a stream that was lost to the next try

log = structlog.get_logger(__name__)


def build(settings: Settings, market: MarketData, store: Store, environ: Mapping[str, str]) -> IbkrBroker:
    """No request is made. Raises SettingError when IBKR_ACCOUNT is missing."""
    return IbkrBroker(settings, market.clock, store, environ)


class IbkrBroker:
    """An account at Interactive Brokers. Threads share it, and one of them asks at a time."""

    def __init__(self, settings: Settings, clock: MarketClock, store: Store, environ: Mapping[str, str]) -> None:
        own = own_settings(settings, IbkrSettings)
        (account,) = broker_keys(settings.broker, environ).values()
        self.name = settings.broker
        self.real_money = settings.real_money
        self._clock, self._account, self._client_id = clock, account, own.client_id
        port = own.port or PORTS[settings.broker]
        place = Place(own.host, port, own.client_id, account, paper=not settings.real_money)
        self._gateway = Gateway(place, REQUEST_SECONDS, self._tell)
        self._journal = Journal(store)
        self._knows_within = settings.sends_to.knows_within
        self._turn = Turn(settings.home, own.client_id)
        self._lock = threading.RLock()
        self._shares: dict[str, Any] = {}  # contracts with their price steps, by our symbol
        self._primary: dict[int, str] = {}  # exchanges by the number of the contract
        self._money = ""  # that the account is kept in, once it is known
        self._trouble: DeskError | None = None
        self._trouble_until = 0.0
        self._ended = threading.Event()
        self._watch: threading.Thread | None = None
        self._changed: Callable[[str], None] | None = None
        self._teller = ThreadPoolExecutor(1, thread_name_prefix="ibkr-changed")

    def submit(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
        with self._connected() as gateway:
            try:
                shapes.require_sendable(ticket)
                share = self._share(gateway, ticket.symbol)
                shapes.require_steps(ticket, share.minTick)
            except shares.NotOrderable as error:
                return _rejected(str(error))
            # IBKR takes a reference as often as it is sent.
            if (earlier := self._looked_up(ticket)) is not None:
                return earlier
            gateway.require_link()  # nothing is sent that would wait for the link
            refused = gateway.place(share.contract, shapes.order_of(ticket, self._account))
        found = self._looked_up(ticket)
        if refused is None and found is None:
            raise GatewaySilent(f"the Gateway tells nothing of order {ticket.order_id}, and has it in no list yet")
        if (idle := self._end_inactive(ticket)) is not None:
            found = self._looked_up(ticket)
        # The number by which an error comes is no identity, and some errors leave an order where it is: what is in the
        # lists decides.
        reason = str(refused.args[0]) if refused is not None else idle
        if found is None or (reason and not found.fills and found.status not in shapes.WORKING):
            return _rejected(reason or "IBKR did not take it")
        return found if reason is None else found.model_copy(update={"message": reason})

    def _end_inactive(self, ticket: OrderTicket) -> str | None:
        """Cancel an order that was refused and is kept, so that nobody sends it on; return what IBKR says of it."""
        with self._connected() as gateway:
            row = shapes.order_in(ticket, gateway.lists(), self._account)
            if row is None or row.status != "Inactive":
                return None
            gateway.cancel(row)
            return row.note or "IBKR keeps it as inactive"

    def lookup(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer | None:
        found = self._looked_up(ticket)
        return (self._over(ticket) or found) if found is None or found.message == shapes.UNLISTED else found

    def _over(self, ticket: OrderTicket) -> BrokerAnswer | None:
        """Return the end of an order of an earlier day that is not open, with the fills that were told; None for one of
        today. The other two lists go back to midnight: what it did unseen is a difference of the account, which halts
        it before anything else is sent."""
        reference, now = str(ticket.order_id), dt.datetime.now(dt.UTC)
        sent = self._journal.sent_at(reference) or ticket.placed_at
        if _day(sent) >= _day(now) or (now - sent).total_seconds() < self._knows_within:
            return None
        kept = [fill for _, fill in self._journal.fills(reference).values()]
        message = f"of {_day(sent)} and not open: IBKR lists it no more, and what else it did shows in the account"
        return BrokerAnswer(status="expired", broker_order_id=None, fills=kept, message=message)

    def cancel(self, ticket: OrderTicket) -> BrokerAnswer | None:
        with self._connected() as gateway:
            found = self._looked_up(ticket)
            if found is None or found.message == shapes.UNLISTED:
                return self._over(ticket) or found
            row = shapes.order_in(ticket, gateway.lists(), self._account)
            if found.status not in shapes.WORKING or row is None or row.ended or row.status in shapes.ENDED:
                return found
            if row.order.clientId != self._client_id:
                other = row.order.clientId
                reason = f"order {ticket.order_id} was placed by the client number {other}, which alone can cancel it"
                raise GatewaySilent(reason, remedy=f"cancel it in TWS, or set DESK_IBKR_CLIENT_ID={other}")
            gateway.cancel(row)
        return self._looked_up(ticket) or found

    def _looked_up(self, ticket: OrderTicket) -> BrokerAnswer | None:
        """None where no list has it, asked twice: an end that comes doubled would close the next list too early."""
        reference = str(ticket.order_id)
        kept = self._journal.fills(reference)
        found = None
        with self._connected() as gateway, _readable():
            for _ in range(2):
                found = found or shapes.answer_in(ticket, gateway.lists(), self._account, kept)
                gateway.require_link()
        if found is not None and (new := [fill for fill in found.fills if fill.id not in kept]):
            self._journal.keep(reference, int(found.broker_order_id or 0), new)
        return found

    def state(self) -> BrokerState:
        midnight = self._clock.now().astimezone(NEW_YORK).replace(hour=0, minute=0, second=0, microsecond=0)
        with self._connected() as gateway:
            values, positions, lists = gateway.values(), gateway.positions(), gateway.lists()
            rows = (*positions, *lists.executions, *((row.contract,) for row in lists.open))
            self._place_contracts(gateway, [row[0] for row in rows])
            gateway.require_link()
        with _readable():
            money = self._money = shares.money_of(values)
            pairs = [pair for pair in lists.executions if pair[1].time >= midnight]
            worth = values.get(("NetLiquidation", money))
            return BrokerState(
                account=self.name,
                cash=shapes.cash_of(values, money),
                equity=shapes.number(worth) if worth else None,
                positions=[shapes.position_of(*row, money) for row in positions],
                open_orders=shapes.open_orders(lists, self._account),
                fills=shapes.account_fills(pairs, lists.fees),
                blocked=shapes.blocked_of(values, positions, money),
                currency=money,
            )

    def listen(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._start_watch()

    def close(self) -> None:
        self._changed = None
        self._ended.set()
        with self._lock:
            self._leave()
            self._gateway.close()

    def _tell(self, reference: str) -> None:
        """Called by the connection's thread, which a question by the listener would wait for."""
        if (changed := self._changed) is not None:
            self._teller.submit(changed, reference)

    def _share(self, gateway: Gateway, symbol: str) -> Any:
        """Return what IBKR knows of a share. Raises NotOrderable."""
        if symbol not in self._shares:
            self._money = self._money or shares.money_of(gateway.values())
            asked = shares.wanted(symbol, self._money)
            self._shares[symbol] = shares.chosen(symbol, asked, gateway.details(asked))
        return self._shares[symbol]

    def _place_contracts(self, gateway: Gateway, contracts: Iterable[Any]) -> None:
        """Give each share in other money than dollars its primary exchange, which the lists leave out."""
        for contract in contracts:
            if contract.secType != "STK" or contract.currency == "USD":
                continue
            if contract.conId not in self._primary:
                found = gateway.details(Contract(conId=contract.conId, exchange="SMART"))
                self._primary[contract.conId] = str(found[0].contract.primaryExchange) if found else ""
            contract.primaryExchange = self._primary[contract.conId]

    # The connection

    @contextmanager
    def _connected(self) -> Iterator[Gateway]:
        with self._lock:
            self._start_watch()
            self._turn.take(TURN_SECONDS)
            self._connect()
            yield self._gateway

    def _connect(self) -> None:
        """Connect unless it is. What kept it waiting is told again for a moment without another wait: a halt asks for
        each order, one after another."""
        if not self._gateway.connected and self._trouble is not None and time.monotonic() < self._trouble_until:
            self._turn.leave()
            raise self._trouble
        began = time.monotonic()
        try:
            self._gateway.connect()
            self._trouble = None
        except DeskError as error:
            self._leave()
            if time.monotonic() - began > TROUBLE_SECONDS / 3:
                self._trouble, self._trouble_until = error, time.monotonic() + TROUBLE_SECONDS
            raise

    def _leave(self) -> None:
        self._gateway.disconnect()
        self._turn.leave()

    def _start_watch(self) -> None:
        with self._lock:
            if self._watch is None or not self._watch.is_alive():
                self._ended.clear()
                self._watch = threading.Thread(target=self._watching, name="ibkr-turn", daemon=True)
                self._watch.start()

    def _watching(self) -> None:
        """Leave the connection to a process that waits for it, and connect again for a listener."""
        again, told = 0.0, False
        while not self._ended.wait(LOOK_SECONDS):
            if not self._lock.acquire(blocking=False):
                continue
            try:
                if self._turn.held and (self._turn.wanted() or not self._gateway.connected):
                    self._leave()
                elif self._changed is not None and not self._turn.held and time.monotonic() > again:
                    self._connect_idle()
                    told = False
            except Exception as error:  # the thread goes on: without it no other process would get the connection
                why = str(error) if isinstance(error, DeskError) else type(error).__name__
                if not told:
                    log.warning("fill_stream.ended", instead="fills are polled for", error=why)
                told, again = True, time.monotonic() + AGAIN_SECONDS
            finally:
                self._lock.release()

    def _connect_idle(self) -> None:
        if self._turn.wanted() or not self._turn.try_take():
            return
        self._connect()


def _rejected(message: str) -> BrokerAnswer:
    return BrokerAnswer(status="rejected", broker_order_id=None, fills=[], message=message)


def _day(at: dt.datetime) -> dt.date:
    return at.astimezone(NEW_YORK).date()


@contextmanager
def _readable() -> Iterator[None]:
    """Raise GatewaySilent for an answer that is not of the known shape."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
        raise GatewaySilent(f"an answer of IBKR could not be read: {type(error).__name__}") from None
