"""A desk for order tests: a real database, the lineage a decision rests on, and shorthands to ask what came of it."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.market import legs_of
from chordesk.models.orders import BrokerFill, DenialCode
from chordesk.models.settings import Settings
from chordesk.models.states import OrderState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, BookedSettlement, Fill, Order, Position, Preview
from chordesk.models.tables.runs import Decision
from chordesk.tools.brokers.paper import PaperBroker
from chordesk.tools.brokers.protocol import Broker, build_broker
from chordesk.tools.ledger import apply_fill, ensure_account
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.replay.market import ReplayMarket
from chordesk.tools.orders.accounts import FencingLease
from chordesk.tools.orders.flow import process_decision
from chordesk.tools.orders.kill_switch import flatten
from chordesk.tools.orders.sessions import to_next_session
from chordesk.tools.orders.stops import preview_text
from chordesk.tools.orders.submitting import SubmissionContext
from chordesk.tools.risk.codes import deny
from tests.builders import a_candidate, a_run, a_step, a_turn, a_verdict_on
from tests.tools.orders.tape import Tape

BUY = "BUY"
DEFAULTS: dict[str, Any] = {"trader_live": True, "cooldown_hours": 0, "slippage_bps": 0, "max_sector_share": 1}


def action(symbol: str = "AAA", kind: str = "open", **changes: Any) -> dict[str, Any]:
    """A trader's action as the decision row keeps it: a market order of 10 shares unless given otherwise."""
    side = {"open": "buy", "add": "buy", "reduce": "sell", "close": "sell"}.get(kind)
    base: dict[str, Any] = {
        "symbol": symbol,
        "action": kind,
        "side": side,
        "quantity": None if "notional" in changes else 10.0,
        "notional": None,
        "orderType": "market" if side else None,
        "limitPrice": None,
        "confidence": "high",
        "reasoning": "a test",
    }
    return {**base, **changes}


class Outcome:
    """An order's row, with its denial and fills. Price, notional and hash are its preview's, None before there is one;
    protection: the stop that its fill gets, as previewed."""

    def __init__(self, store: Store, order_id: str) -> None:
        with store.read() as session:
            self.row = row = session.get_one(Order, order_id)
            preview = session.exec(select(Preview).where(Preview.order_id == order_id)).first()
            self.fills = session.exec(select(Fill).where(Fill.order_id == order_id).order_by(col(Fill.filled_at))).all()
        self.order_id, self.state, self.legs = row.id, OrderState(row.state), legs_of(row.legs)
        self.price = preview.price if preview else None
        self.notional = preview.notional if preview else None
        self.payload_hash = preview.payload_hash if preview else None
        self.protection = preview_text(preview.payload) if preview else None
        stated = row.denial_reason or "", row.measured or "", row.limit_text or ""
        self.denied = deny(DenialCode(row.denial_code), *stated) if row.denial_code else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.row, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outcome) and self.row.model_dump() == other.row.model_dump()

    def __repr__(self) -> str:
        return f"{self.row!r} {self.denied!r}"


def denied(outcome: Outcome, code: DenialCode) -> str:
    """Return the reason of an order's denial, which must have this code, a figure and a limit."""
    found = outcome.denied
    assert outcome.state == OrderState.DENIED, outcome
    assert found is not None
    assert found.code == code, found
    assert all((found.reason, found.measured, found.limit)), found
    return found.reason


@dataclass
class Desk:
    store: Store
    settings: Settings
    market: MarketData
    broker: Broker
    lease: FencingLease

    def decide(
        self,
        *actions: Any,
        ratings: dict[str, str] | None = None,
        instrument: str = "equity",
        parent: str | None = None,
        **run: Any,
    ) -> str:
        """Write a run with verdicts (BUY on every symbol unless given) and its decision; returns the decision's id."""
        symbols = {
            str(item["symbol"]).strip().upper() for item in actions if isinstance(item, dict) and "symbol" in item
        }
        rated = dict.fromkeys(symbols, BUY) if ratings is None else ratings
        with self.store.session() as session:
            values = {
                "account": self.settings.account,
                "provider": "endpoint",
                "model": "m",
                "market": self.market.name,
            }
            times = {"market_now": self.market.clock.now(), "deadline_at": utcnow()}
            own = {"parent_run_id": parent, "params": {"across_earnings": True}, **run}
            found = a_run(session, **values | times | own)
            step = a_step(session, found, kind="decide", state="done")
            turn = a_turn(
                session, step, role="trader", subject="paper", kept=True, provider="endpoint", model="m", thread_id=None
            )
            for symbol, rating in sorted(rated.items()):
                candidate = a_candidate(
                    session, found, symbol, instrument=instrument, confidence="high", origin="manual"
                )
                a_verdict_on(session, candidate.id, rating=rating)
            decision = Decision(
                run_id=found.id,
                step_id=step.id,
                turn_id=turn.id,
                account=self.settings.account,
                status="completed",
                actions=list(actions),
                author="a test",
            )
            session.add(decision)
        return decision.id

    def process(self, decision_id: str, **changes: Any) -> list[Outcome]:
        settings = self.settings.model_copy(update=changes) if changes else self.settings
        ids = process_decision(self.store, settings, self.market, self.broker, decision_id, self.lease)
        return self.outcomes(ids)

    def flatten(
        self, context: SubmissionContext, by: str, why: str, *, everything: bool = False
    ) -> tuple[list[Outcome], list[str]]:
        done = flatten(context, by, why, everything=everything)
        return self.outcomes(done.orders), done.left

    def outcomes(self, ids: Sequence[str]) -> list[Outcome]:
        return [Outcome(self.store, order_id) for order_id in ids]

    def context(self, **changes: Any) -> SubmissionContext:
        """As the trade worker has it, with other settings if named."""
        settings = self.settings.model_copy(update=changes) if changes else self.settings
        return SubmissionContext(self.store, settings, self.market, self.broker, self.lease)

    def go(self, day: dt.date) -> None:
        """Stand on another day of a market of past days."""
        assert isinstance(self.market, ReplayMarket)
        assert isinstance(self.broker, PaperBroker)
        self.market = self.market.on(ReplayClock(day, exchange=self.market.clock.exchange))
        self.broker = self.broker.on(self.market)

    def next_session(self) -> None:
        """Let the next session of a market of past days come."""
        day = to_next_session(self.store, self.settings)
        assert day is not None
        self.go(day)

    def run(self, *actions: Any, **decision: Any) -> list[Outcome]:
        return self.process(self.decide(*actions, **decision))

    def hold(self, symbol: str, quantity: float, price: float = 1.0) -> None:
        """Book shares that were there before, delivered at a price, and give back what they cost."""
        with self.store.session() as session:
            account = ensure_account(session, self.settings.account, self.settings.starting_cash)
            cash, at = account.cash, self.market.clock.now()
            side = "buy" if quantity > 0 else "sell"
            fill = BrokerFill(quantity=abs(quantity), price=price, commission=0, at=at)
            apply_fill(session, account.name, symbol, side, fill)
            session.add(
                BookedSettlement(
                    account=account.name,
                    id=f"{symbol}/{len(session.exec(select(BookedSettlement)).all())}",
                    kind="delivered",
                    symbol=symbol,
                    quantity=quantity,
                    price=price,
                    settled_at=at,
                )
            )
            account.opening_cash += cash - account.cash
            account.cash = cash
            session.add(account)

    def orders(self) -> list[Order]:
        with self.store.read() as session:
            return list(session.exec(select(Order).order_by(col(Order.created_at), col(Order.ordinal))).all())

    def fills(self) -> list[Fill]:
        with self.store.read() as session:
            return list(session.exec(select(Fill)).all())

    def cash(self) -> float:
        with self.store.read() as session:
            account = session.get(Account, self.settings.account)
            assert account is not None
            return account.cash

    def positions(self) -> dict[str, float]:
        with self.store.read() as session:
            return {row.symbol: row.quantity for row in session.exec(select(Position)).all()}


def make_desk(template: Path, home: Path, market: MarketData | None = None, **settings: Any) -> Desk:
    """A desk with its own copy of a migrated database; live, and without cooldown, slippage and a limit on sectors (a
    tape names none) unless given otherwise."""
    home.mkdir(parents=True, exist_ok=True)
    if "database_url" not in settings:
        shutil.copyfile(template, home / "desk.db")
    found = Settings(home=home, **{**DEFAULTS, **settings})
    market = market or Tape({"AAA": 100.0, "BBB": 50.0, "CCC": 20.0})
    store = Store(found.database)
    return Desk(store, found, market, build_broker(found, market, store), FencingLease(store, found.account, "test"))
