"""What a run did, as one sentence."""

from __future__ import annotations

import datetime as dt

from chordesk.models.database.store import Store
from chordesk.models.states import OrderState, RunState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import BacktestSession, Run
from chordesk.tasks.reading.run_details import outcome
from tests.builders import a_run
from tests.parts import needs
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


@needs("measure")
def test_a_backtest_says_how_far_it_is_and_what_it_came_to(store: Store) -> None:
    days = [dt.date(2010, 8, 9), dt.date(2010, 8, 10)]
    with store.session() as session:
        run = a_run(session, kind="backtest", params={"days": [str(day) for day in days]}, state=RunState.RUNNING)
        run.params = {**run.params, "backtest": run.id}
        played = {"state": "done", "equity": 100_250.5, "cash": 1.0, "traded": 0.0}
        session.add(BacktestSession(backtest_id=run.id, run_id=run.id, day=days[0], **played))
        session.flush()
        assert "1 of 2 sessions, 2010-08-09 to 2010-08-10: $100,250.50 so far" in outcome(session, run)
        run.state, run.summary = RunState.DONE, {"backtest": {"returns": {"desk": -0.0123, "held": 0.02}}}
        assert outcome(session, run).endswith(": -1.23 %, against +2.00 % bought and held")
