"""The kill switch: halt every account of the desk at once, and let one trade again.

The command and the HTTP service both call it. It needs neither Redis nor a worker nor a model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from chordesk.models.database.store import Store
from chordesk.models.errors import DatabaseDown, DeskError, OrderError
from chordesk.models.settings import Settings
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Order
from chordesk.tools.brokers.protocol import Broker
from chordesk.tools.ledger import filled_quantities
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders import accounts, audit, halting
from chordesk.tools.orders.accounts import FencingLease
from chordesk.tools.orders.booking import load_order
from chordesk.tools.orders.closing import flatten
from chordesk.tools.orders.flow import cancel_open
from chordesk.tools.orders.stops import working_protection
from chordesk.tools.orders.submitting import SubmissionContext

HALTED = "halted by a person"
RESUMED = "resumed by a person"


def confirmation(account: str) -> str:
    """Return the words by which a person confirms that every position of an account is closed at market."""
    return f"flatten {account}"


class HaltListener(Protocol):
    """Receiver of each step of a halt as it is done: a database that hangs must not hide what is in force already."""

    def file_written(self, path: Path) -> None: ...

    def account_halted(self, account: str, denied: Sequence[str]) -> None:
        """Receive an account and the ids of its orders that were denied before they were sent."""

    def orders_left_to_worker(self) -> None:
        """Note that this process cannot reach the broker: the trade worker cancels open orders."""

    def orders_cancelled(self, left: Sequence[str], protective: Sequence[str]) -> None:
        """Receive the ids of orders that the broker has not confirmed as cancelled, and of protective orders, which
        were left in force."""

    def positions_closed(self, orders: Sequence[Order], filled: Mapping[str, Decimal]) -> None:
        """Receive each order that closes a position, filled or not, and by id how much of it is."""

    def failed(self, error: DeskError) -> None: ...


@dataclass(frozen=True, slots=True)
class HaltRequest:
    """A person's request. by: the name for the record. close_positions: also sell or buy back every position."""

    by: str
    why: str = HALTED
    close_positions: bool = False


@dataclass(frozen=True, slots=True)
class HaltResult:
    """The end of a halt."""

    in_force: bool  # by the file, or on at least one account
    complete: bool  # nothing failed and nothing is left open


def halt(
    settings: Settings,
    request: HaltRequest,
    open_store: Callable[[], Store],
    connect: Callable[[Store], tuple[MarketData, Broker]],
    listener: HaltListener,
) -> HaltResult:
    """Halt every account, deny waiting orders, cancel open orders of this process's broker and, if asked, close its
    positions. open_store and connect are called when they are needed, and may raise DeskError."""
    running = _Halt(settings, request, connect, listener)
    running.write_file()
    # The file and the database stand in for each other, and nothing waits for the audit log.
    with audit.best_effort() as unrecorded:
        store = running.opened(open_store)
        if store is not None:
            running.halt_accounts(store)
            running.end_orders(store)
            running.name_other_accounts(store)
    if unrecorded:
        running.fail(_not_recorded(unrecorded))
    return HaltResult(running.filed or running.halted > 0, running.complete)


@dataclass(slots=True)
class _Halt:
    """A halt under way. filed: the HALT file is written; halted: how many accounts are halted in the database."""

    settings: Settings
    request: HaltRequest
    connect: Callable[[Store], tuple[MarketData, Broker]]
    listener: HaltListener
    filed: bool = False
    halted: int = 0
    complete: bool = True

    def fail(self, error: DeskError) -> None:
        self.complete = False
        self.listener.failed(error)

    def write_file(self) -> None:
        try:
            path = halting.write_file(self.settings, self.request.why, self.request.by)
        except OrderError as error:
            self.fail(error)
            return
        self.filed = True
        self.listener.file_written(path)

    def opened(self, open_store: Callable[[], Store]) -> Store | None:
        try:
            return open_store()
        except DeskError as error:
            self.fail(self._not_halted(str(error.args[0])))
            return None

    def halt_accounts(self, store: Store) -> None:
        names: list[str] = [self.settings.account]
        try:
            with store.read() as session:
                names = accounts.account_names(session, self.settings.account)
        except SQLAlchemyError as error:
            self.fail(self._not_halted(f"the other accounts are not known: {_no_answer(error)}"))
        done = [found for name in names if (found := self._halt_account(store, name)) is not None]
        try:
            with store.session() as session:
                for record in done:
                    halting.record(session, self.settings, record)
        except SQLAlchemyError as error:
            self.fail(DatabaseDown(f"the halt is not on record: {type(error).__name__}"))

    def _halt_account(self, store: Store, account: str) -> halting.HaltRecord | None:
        try:
            done = halting.halt(store, account, self.request.why, self.request.by)
        except (DeskError, SQLAlchemyError) as error:
            reason = str(error.args[0]) if isinstance(error, DeskError) else _no_answer(error)
            self.fail(self._not_halted(f"account {account}: {reason}"))
            return None
        self.halted += 1
        self.listener.account_halted(account, done.orders)
        return done

    def _not_halted(self, reason: str) -> DatabaseDown:
        halted = (
            "this host's home is halted by the file alone" if self.filed else "NOTHING IS HALTED: end the trade worker"
        )
        return DatabaseDown(reason, remedy=f"{halted}; run it again when the database answers, to cancel what is open")

    def end_orders(self, store: Store) -> None:
        connected = False
        try:
            market, broker = self.connect(store)
            connected = True
            lease = FencingLease(store, broker.name, f"desk halt {self.request.by} {os.getpid()}")
            context = SubmissionContext(store, self.settings, market, broker, lease)
            if self.request.close_positions:
                closing, left = flatten(context, self.request.by, self.request.why)
            else:
                closing, left = None, cancel_open(context)
        except DeskError as error:
            self.fail(error)
            if not connected:
                self.listener.orders_left_to_worker()
            return
        except SQLAlchemyError as error:
            self.fail(DatabaseDown(_no_answer(error)))
            return
        self.complete &= not left
        with store.read() as session:
            kept = [order.id for order in working_protection(session, broker.name) if order.id not in left]
            closed = [load_order(session, id_) for id_ in closing or ()]
            filled = filled_quantities(session, [order.id for order in closed])
        self.listener.orders_cancelled(left, kept)
        if closing is not None:
            self.complete &= all(order.state == OrderState.FILLED for order in closed)
            self.listener.positions_closed(closed, filled)

    def name_other_accounts(self, store: Store) -> None:
        close_positions, own = self.request.close_positions, self.settings.account
        try:
            with store.read() as session:
                others = accounts.account_names(session, own)[1:]
                left = {name: accounts.unfinished(session, name, positions=close_positions) for name in others}
        except SQLAlchemyError as error:
            self.fail(DatabaseDown(_no_answer(error)))
            return
        command = "desk halt --flatten" if close_positions else "desk halt"
        for name, open_ in left.items():
            if open_:
                reason = f"the broker of account {name} was not asked, only {own} was: {'; '.join(open_)}"
                self.fail(OrderError(reason, remedy=f"DESK_BROKER={name} {command}"))


def _no_answer(error: SQLAlchemyError) -> str:
    return f"the database does not answer: {type(error).__name__}"


def _not_recorded(errors: Sequence[OrderError]) -> OrderError:
    """One error for all transactions whose lines are missing."""
    more = f", {len(errors)} times in all" if len(errors) > 1 else ""
    reason = f"{errors[0].args[0]}; it was done all the same, and is not on record{more}"
    return OrderError(reason, remedy=errors[0].remedy)


def resume(store: Store, settings: Settings, by: str, why: str = RESUMED, *, reduce_only: bool = False) -> list[str]:
    """Let this process's account trade again, or only give exposure back; return the accounts that stay halted. Raises
    OrderError when the audit log or the HALT file is in the way: the account stays halted then."""
    with store.session() as session:
        halting.resume(session, settings, settings.account, by, why, reduce_only=reduce_only)
        still = [row.account for row in accounts.halted_accounts(session)]
    halting.remove_file(settings)  # last: a process that dies before it leaves the account halted
    return still
