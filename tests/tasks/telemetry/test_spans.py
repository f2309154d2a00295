"""Spans that are made far from their run's own work: an order a person approved later, a process that is ending."""

from __future__ import annotations

import datetime as dt

from opentelemetry import context as contexts

from chordesk.models.states import OrderState, RunState
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.orders import Fill, Order
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.telemetry.traces import Spans
from tests.builders import MARKET_NOW, run_row
from tests.fakes.otlp import Collector, Seen

SENT = utcnow() - dt.timedelta(hours=1)


def an_order(run_id: str, state: OrderState = OrderState.FILLED, message: str | None = None) -> Order:
    return Order(
        id="o", run_id=run_id, decision_id="d", ordinal=0, account="paper", symbol="IBM", action="open", side="buy",
        quantity=5.0, state=state, message=message, sent_at=SENT, market_at=MARKET_NOW,
    )  # fmt: skip


def a_fill() -> Fill:
    return Fill(
        order_id="o", account="paper", symbol="IBM", side="buy", quantity=5.0, price=20.0, commission=0.0,
        filled_at=MARKET_NOW,
    )  # fmt: skip


def a_step(run_id: str) -> ClaimedStep:
    return ClaimedStep(
        id="s", kind="submit", role="", parent_id=None, subject="", run_id=run_id, attempt=1, max_attempts=3,
        owner="me", payload={}, claimed_at=utcnow(),
    )  # fmt: skip


def made(collector: Collector, *orders: Order, within: str | None = None) -> dict[str, Seen]:
    """The spans of a fill and a submission of each order, made in a step of the run `within`, by name; a process that
    ends has sent all of its own."""
    spans = Spans(collector.url, "test")
    near = None
    if within is not None:
        with spans.step(a_step(within)):
            near = contexts.get_current()
    for order in orders:
        spans.submission(order, utcnow(), order.state, near)
        spans.fill(order, a_fill(), near)
    spans.close()
    return {span.name: span for span in collector.spans()}


def test_an_order_is_of_its_run_s_trace_whichever_worker_sends_it() -> None:
    mine, other = new_id(), new_id()
    with Collector() as collector:
        own = made(collector, an_order(mine), within=mine)
    assert own["step submit"].parent == mine[16:], "in its own run's step it is under that"
    assert {own[name].parent for name in ("order submit", "order fill")} == {own["step submit"].id}
    with Collector() as collector:
        found = made(collector, an_order(mine), within=other)
    assert found["step submit"].trace == other
    for name in ("order submit", "order fill"):
        assert (found[name].trace, found[name].parent) == (mine, mine[16:])
        assert found[name].start == round(SENT.timestamp() * 1_000_000) * 1000
        assert found[name].end > found[name].start


def test_the_run_s_own_span_is_the_root_and_has_its_end() -> None:
    run = run_row(state=RunState.FAILED, notes=["every lens failed"], finished_at=utcnow())
    with Collector() as collector:
        spans = Spans(collector.url, "test")
        spans.run(run)
        spans.run(run_row())  # has not ended
        spans.close()
        (root,) = collector.spans()
    assert (root.trace, root.id, root.parent) == (run.id, run.id[16:], "")
    assert (root.failed, root.about["desk.why"]) == (True, "every lens failed")
