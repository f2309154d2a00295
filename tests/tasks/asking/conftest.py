"""A desk as of a worker, whose orders wait for a person, and what it proposes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from celery import Celery
from sqlmodel import select

from chordesk.models.asking.proposals import AskingProposal
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Run
from chordesk.tasks.asking import confirming
from chordesk.tasks.asking.proposing import Asker, from_text
from chordesk.tasks.proposals import Office, ProposalScope
from chordesk.tools.brokers.protocol import build_broker
from chordesk.tools.market.factory import build_market
from chordesk.tools.orders.accounts import FencingLease
from chordesk.tools.orders.audit import log_path
from tests.tasks.worker.conftest import address as address
from tests.tasks.worker.conftest import make_app as make_app
from tests.tools.orders.desk import Desk, action

ADA = Asker("ada", "a test")
EVERY = frozenset(ProposalScope)


@dataclass
class Floor:
    """A desk, and a person before it. opens: whether this process opens runs."""

    app: Celery
    opens: bool = True

    @property
    def office(self) -> Office:
        desk = self.app.desk
        return Office(desk.settings, desk.store, lambda: desk, (lambda: self.app) if self.opens else None)

    def asks(self, *symbols: str) -> list[str]:
        """Orders that wait from now on; their ids."""
        desk = self.app.desk
        market = build_market(desk.settings)
        broker = build_broker(desk.settings, market, desk.store)
        trading = Desk(desk.store, desk.settings, market, broker, FencingLease(desk.store, "paper", "a"))
        outcomes = trading.run(*(action(symbol) for symbol in symbols))
        assert {one.state for one in outcomes} == {"approval_pending"}
        return [str(one.order_id) for one in outcomes]

    def proposes(self, text: str) -> AskingProposal:
        made = from_text(self.office, text, ADA)
        assert made is not None
        return made

    def confirms(self, row: AskingProposal, by: str = "ada", **changes: Any) -> AskingProposal:
        """Answer yes as a road does: the transaction, and what it left to be done."""
        given = {"expect": row.shown, "scopes": EVERY, "via": "a test", **changes}
        office = self.office
        with office.store.session() as session:
            confirming.confirm(session, office, row.id, by=by, **given)
        confirming.finish(office, row.id)
        return self.row(row)

    def row(self, row: AskingProposal) -> AskingProposal:
        with self.office.store.read() as session:
            return session.get_one(AskingProposal, row.id)

    def order(self, id_: str) -> Order:
        with self.office.store.read() as session:
            return session.get_one(Order, id_)

    def runs(self, kind: str) -> list[Run]:
        with self.office.store.read() as session:
            return list(session.exec(select(Run).where(Run.kind == kind)).all())

    def audit(self, *kinds: str) -> list[Mapping[str, Any]]:
        path = log_path(self.office.settings)
        lines = path.read_text().splitlines() if path.exists() else []
        return [one["facts"] for one in map(json.loads, lines) if one["kind"] in kinds]


@pytest.fixture
def floor(make_app: Callable[..., Celery]) -> Floor:
    return Floor(make_app(trader_live=True, approval="manual", cooldown_hours=0, max_sector_share=1))
