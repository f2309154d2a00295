"""What a run did, as one sentence."""

from __future__ import annotations

from chordesk.models.database.store import Store
from chordesk.models.states import OrderState, RunState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Run
from chordesk.tasks.reading.outcome import outcome
from tests.tasks.views.chain import a_chain


def test_it_counts_names_verdicts_and_orders_as_they_are_now(store: Store) -> None:
    with store.session() as session:
        chain = a_chain(session)
        run = session.get_one(Run, chain.run_id)
        said = outcome(session, run)
        assert "2 candidates: 2 BUY" in said
        assert "of 2 orders 1 denied, 1 previewed" in said
        session.get_one(Order, chain.order_id).state = OrderState.APPROVAL_PENDING
        run.state, run.notes = RunState.PARTIAL, ["the budget is used up"]
        session.flush()
        said = outcome(session, run)
        assert "1 wait for you" in said
        assert said.endswith("not whole: the budget is used up")
