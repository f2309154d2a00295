"""Documents have what the views have: fills, gaps, a market that is away, and the halts of a day."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Session

from chordesk.models.states import TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Fill, Order
from chordesk.models.tables.runs import Run, Verdict
from chordesk.models.text import NEW_YORK
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.reports.documents import day_document, run_document
from chordesk.tools.orders import booking
from tests.browser.hostile import a_hostile_run
from tests.tasks.views.chain import Chain

DAY = dt.date(2010, 8, 12)


def add_fill(session: Session, order: Order) -> None:
    order.state = "filled"
    session.add(order)
    session.add(
        Fill(order_id=order.id, account="paper", symbol="ACME", side="buy", quantity=50, price=99.5, commission=1,
             filled_at=order.market_at)
    )  # fmt: skip


def test_a_fill_is_the_last_step_and_a_mark_at_its_price(desk: Desk, chained: Chain) -> None:
    with desk.store.session() as session:
        add_fill(session, session.get_one(Order, chained.order_id))
    one = run_document(desk, chained.run_id).symbols[0]
    assert one.lineage[-1].kind == "fill"
    assert one.lineage[-1].label == "buy 50 at 99.5"
    (mark,) = (mark for mark in one.prices.marks if mark.kind == "fill")
    assert (mark.price, mark.label) == (99.5, "buy 50")
    assert one.orders[0].fills[0].commission == 1


def test_gaps_are_named_with_their_reasons(desk: Desk, chained: Chain) -> None:
    hostile = a_hostile_run(desk.store)
    lack = {(one.what, one.role): one.reason for one in run_document(desk, hostile.run).missing if one.symbol}
    assert lack["sources", "risk"] == "1 of 2 figures have no source: 99.9"
    assert ("bars", None) in lack or ("history", None) in lack, "the market has no prices of it"
    with desk.store.session() as session:
        verdict = session.get_one(Verdict, chained.verdict_id)
        verdict.missing = ["catalyst: failed (no answer)"]
        session.add(verdict)
    found = run_document(desk, chained.run_id)
    reasons = [one.reason for one in found.missing if one.symbol == "ACME" and one.what == "report"]
    assert reasons == ["catalyst: failed (no answer)"]
    assert ("end", "the run goes on") in {(one.what, one.reason.partition(":")[0]) for one in found.missing}
    assert found.in_flight


def test_a_market_that_is_away_leaves_all_but_prices_and_history(desk: Desk, chained: Chain) -> None:
    with desk.store.session() as session:
        run = session.get_one(Run, chained.run_id)
        run.market = "nowhere"
        session.add(run)
    found = run_document(desk, chained.run_id)
    one = found.symbols[0]
    assert one.prices.bars == []
    assert one.memory is None
    assert one.combined_rating == "BUY"
    assert "cannot have the market" in one.prices.missing[0].reason


def test_a_day_has_its_halts_and_a_later_day_has_not(desk: Desk, chained: Chain) -> None:
    with desk.store.session() as session:
        booking.trading_changed(session, "paper", TradingState.HALTED, "too hot", "ann")
    today = day_document(desk, utcnow().astimezone(NEW_YORK).date())
    (halt,) = today.halts
    assert (halt.account, halt.state, halt.why, halt.by) == ("paper", TradingState.HALTED.value, "too hot", "ann")
    assert chained.run_id in {row.run.id for row in today.runs}
    past = day_document(desk, DAY)
    assert past.halts == []
    assert {row.symbol for row in past.verdicts} == {"ACME", "IBM"}
    assert {row.order.symbol for row in past.orders} == {"ACME", "IBM"}
    assert past.equity is None
    assert "equity" in {one.what for one in past.missing}
    empty = day_document(desk, dt.date(1999, 1, 2))
    assert empty.runs == []
    assert {"session", "runs", "equity"} <= {one.what for one in empty.missing}
