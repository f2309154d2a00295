"""The evidence on which a holding was reduced last, as the next verdict on it is compared with."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Session

from chordesk.models.database.store import Store
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, Fill, Position
from chordesk.models.tables.runs import Decision, Run, Verdict
from chordesk.models.thesis import Pooled
from chordesk.tasks.workflows.trade import _keep, _reduced_at
from tests.builders import a_run
from tests.tasks.views.chain import a_chain, an_order

PROBABILITY = 0.47


def filled(session: Session, run: Run, decision: Decision, verdict: Verdict, at: int, action: str) -> None:
    order = an_order(
        session,
        run,
        decision,
        verdict,
        10 + at,
        action=action,
        side="buy" if action in ("open", "add") else "sell",
        market_at=utcnow() + dt.timedelta(days=at),
    )
    session.add(
        Fill(order_id=order.id, account=run.account, symbol=order.symbol, side=str(order.side), quantity=5, price=100,
             commission=0, filled_at=utcnow())
    )  # fmt: skip
    session.flush()


def test_only_a_reduction_that_nothing_was_bought_after_counts(store: Store) -> None:
    with store.session() as session:
        chain = a_chain(session)
        run, decision = session.get_one(Run, chain.run_id), session.get_one(Decision, chain.decision_id)
        verdict = session.get_one(Verdict, chain.verdict_id)
        verdict.pooled = {"probability": PROBABILITY, "move": -0.05, "cost": 0.001}
        session.add(Account(name=run.account, cash=1000))
        session.flush()
        filled(session, run, decision, verdict, 0, "open")
        filled(session, run, decision, verdict, 1, "reduce")
        assert _reduced_at(session, run.account) == {}, "nothing is held"
        session.add(Position(account=run.account, symbol="ACME", quantity=5, average_cost=100, filled_at=utcnow()))
        session.flush()
        assert _reduced_at(session, run.account) == {"ACME": PROBABILITY}
        assert _reduced_at(session, a_run(session).id) == {}, "another account's"
        told = {"symbol": "ACME", "rating": "CAUTION"}
        _keep(session, run.account, [told], {"ACME": Pooled(**verdict.pooled)})  # type: ignore[list-item]
        assert "it was reduced at 0.470" in told["kept"]
        filled(session, run, decision, verdict, 2, "add")
        assert _reduced_at(session, run.account) == {}, "it was added to since"
