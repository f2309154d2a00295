"""The far sides of the desk's own brokers, as the contract drives them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from decimal import Decimal
from types import TracebackType
from typing import Any, ClassVar, Literal
from unittest.mock import patch

import pytest
from sqlmodel import select

from chordesk.models.orders import AccountView, BrokerAnswer, HeldPosition, OrderTicket
from chordesk.models.settings.schema import BROKERS
from chordesk.models.states import ORDER_WORKING, OrderState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Decision, Verdict
from chordesk.testing.broker import Far, FarOrder, Fault, built
from chordesk.tools.brokers import alpaca as module
from chordesk.tools.brokers.paper import PaperBroker
from chordesk.tools.brokers.protocol import Broker
from chordesk.tools.ledger import ensure_account
from chordesk.tools.orders.booking import book, load_order
from tests.fakes.alpaca import KEY, SECRET, Alpaca
from tests.tools.brokers.test_paper import Deep
from tests.tools.orders.desk import Desk, action

FAULTS: Mapping[Fault, str] = {
    "lost-before": "500", "lost-after": "500-after", "hang": "hang", "late": "hang", "refused": "403",
}  # fmt: skip


class AlpacaFar(Far, AbstractContextManager["AlpacaFar"]):
    name = "alpaca-paper"
    entry = BROKERS["alpaca-paper"]
    keys: Mapping[str, str] = dict(zip(entry.credentials, (KEY, SECRET), strict=True))

    def __init__(self, alpaca: Alpaca) -> None:
        self.alpaca = alpaca
        self.sends: Sequence[str] = alpaca.sends
        self._patches = ExitStack()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.alpaca.release()
        self._patches.close()

    def connect(self, keys: Mapping[str, str] | None = None, seconds: float | None = None) -> Broker:
        if seconds is not None:
            self._patches.enter_context(patch.object(module, "REQUEST_SECONDS", seconds))
        return built(self.name, self.keys if keys is None else keys)

    def order(self, order_id: str) -> FarOrder | None:
        rows = [row for row in self.alpaca.orders.values() if row["client_order_id"] == order_id]
        if not rows:
            return None
        (row,) = rows
        prices = {name: float(row[name]) if row[name] else None for name in ("limit_price", "stop_price")}
        trail = float(row["trail_percent"]) if row["trail_percent"] else None
        terms = (row["symbol"], row["side"], float(row["qty"]), row["type"], row["time_in_force"])
        return FarOrder(*terms, **prices, trail_percent=trail)

    def next_send(self, fault: Fault) -> None:
        self.alpaca.faults.append(FAULTS[fault])

    def arrive(self) -> None:
        self.alpaca.take(self.alpaca.bodies[-1])

    def fill(self, order_id: str, quantity: float, price: float) -> dt.datetime:
        self.alpaca.fill(order_id, Decimal(str(quantity)), Decimal(str(price)))
        return dt.datetime.fromisoformat(self.alpaca.activities[-1]["transaction_time"])

    def end(self, order_id: str, how: Literal["cancelled", "expired"]) -> None:
        self.alpaca.end(order_id, {"cancelled": "canceled"}.get(how, how))

    def hold(self, symbol: str, quantity: float, cost: float) -> None:
        self.alpaca.positions[symbol] = (Decimal(str(quantity)), Decimal(str(cost)))

    def late_fills(self, late: bool) -> None:
        self.alpaca.hidden = late

    def cancels_wait(self) -> None:
        self.alpaca.cancels = "pending"

    def strange_order(self) -> str:
        wanted = {"symbol": "MSFT", "qty": 1, "side": "buy", "type": "market", "time_in_force": "day"}
        return str(self.alpaca.take({**wanted, "client_order_id": "by-hand"})["client_order_id"])

    def astray(self, order_id: str) -> None:
        self.alpaca.astray = self.alpaca.order(order_id)["id"]

    def missing_figure(self) -> None:
        self.alpaca.missing = "cash"

    def block(self) -> None:
        self.alpaca.blocked = True

    def currency(self, code: str) -> None:
        self.alpaca.currency = code

    def away(self) -> None:
        self.alpaca.away = True


class PaperFar(Far):
    """The market that paper fills at, and the rows of the desk that it keeps its orders in."""

    name = "paper"
    entry = BROKERS["paper"]
    wire: ClassVar[bool] = False

    def __init__(self, desk: Desk, market: Deep) -> None:
        self.desk, self.market = desk, market
        self.market.opens = dict.fromkeys(self.symbols, None)
        self._decision = desk.decide(*map(action, self.symbols))
        self._filled: dict[str, float] = {}
        with desk.store.session() as session:
            ensure_account(session, self.name, desk.settings.starting_cash)

    def connect(self, keys: Mapping[str, str] | None = None, seconds: float | None = None) -> Broker:
        return PaperBroker(self.desk.store, self.market, self.desk.settings)

    def order(self, order_id: str) -> FarOrder | None:
        with self.desk.store.read() as session:
            row = session.get(Order, order_id)
        names = FarOrder.__dataclass_fields__
        if row is None:
            return None
        return FarOrder(**{**{name: getattr(row, name) for name in names}, "symbol": row.contract or row.symbol})

    def fill(self, order_id: str, quantity: float, price: float) -> dt.datetime:
        with self.desk.store.read() as session:
            symbol = session.get_one(Order, order_id).symbol
        self._filled[order_id] = self._filled.get(order_id, 0) + quantity
        self.market.opens[symbol] = price
        self.market.volumes[symbol] = self._filled[order_id] / self.desk.settings.paper_volume_share
        return self.market.clock.now()

    def end(self, order_id: str, how: Literal["cancelled", "expired"]) -> None:
        if how == "cancelled":
            pytest.skip("nothing ends an order of paper but its time")
        self.market.clock.at += dt.timedelta(days=1)

    def hold(self, symbol: str, quantity: float, cost: float) -> None:
        self.desk.hold(symbol, quantity, cost)

    def now(self) -> dt.datetime:
        return self.market.clock.now()

    def view(self) -> AccountView:
        rows = self.connect().state().positions
        held = [HeldPosition(**row.model_dump()) for row in rows]
        return AccountView(account=self.name, cash=1_000_000, equity=None, positions=held)

    def sending(self, ticket: OrderTicket) -> None:
        names: set[str] = {*FarOrder.__dataclass_fields__, "account", "action", "contract", "multiplier"}
        terms: dict[str, Any] = {name: getattr(ticket, name) for name in names}
        with self.desk.store.session() as session:
            decision = session.get_one(Decision, self._decision)
            verdict = session.exec(select(Verdict.id).where(Verdict.symbol == ticket.symbol)).one()
            ordinal = len(session.exec(select(Order.id)).all())
            ids = {"id": str(ticket.order_id), "run_id": decision.run_id, "decision_id": decision.id}
            ids["verdict_id"] = verdict
            state, at = OrderState.SUBMITTING.value, ticket.placed_at
            session.add(Order(**ids, **terms, ordinal=ordinal, state=state, market_at=at, sent_at=at))

    def booked(self, ticket: OrderTicket, answer: BrokerAnswer) -> None:
        with self.desk.store.session() as session:
            order = load_order(session, str(ticket.order_id))
            if order.state in ORDER_WORKING:
                book(session, self.desk.settings, order, answer)
