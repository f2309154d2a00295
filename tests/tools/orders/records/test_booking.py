"""Answers of a broker become fills, cash and positions once, however often and in whatever order they come."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as rules
from hypothesis import strategies as st
from sqlmodel import update

from chordesk.models import event_log
from chordesk.models.errors import OrderError
from chordesk.models.events import DESK, Domain, Envelope, EventType
from chordesk.models.orders import BrokerAnswer
from chordesk.models.states import ORDER_NEXT, OrderState
from chordesk.models.tables.orders import Order, Position
from chordesk.tools.books import books_of
from chordesk.tools.decimals import exact
from chordesk.tools.orders import approvals, halting
from chordesk.tools.orders.booking import advance, book, load_order
from tests.examples import examples
from tests.tools.orders.desk import Desk, action, make_desk

NewDesk = Callable[..., Desk]
AT = dt.datetime(2010, 8, 13, 13, 30, tzinfo=dt.UTC)
FillRow = tuple[str | None, float, float]


def answer_of(status: str, *fills: FillRow, message: str | None = None) -> BrokerAnswer:
    made = [
        {"id": id_, "quantity": shares, "price": price, "commission": 0.5, "at": AT} for id_, shares, price in fills
    ]
    return BrokerAnswer.model_validate({"status": status, "broker_order_id": "b1", "fills": made, "message": message})


def sent(desk: Desk, state: str = "submitting") -> str:
    (outcome,) = desk.process(desk.decide(action()), trader_live=False)
    with desk.store.session() as session:
        session.exec(update(Order).values(state=state))
    return str(outcome.order_id)


def book_answer(desk: Desk, order_id: str, answer: BrokerAnswer) -> int:
    with desk.store.session() as session:
        return len(book(session, desk.settings, load_order(session, order_id), answer))


def shown(desk: Desk) -> Any:
    return desk.orders()[0].state, desk.positions(), desk.cash(), len(desk.fills())


def test_an_order_is_filled_in_parts_and_each_part_once(new_desk: NewDesk) -> None:
    desk = new_desk()
    order = sent(desk)
    one, two = ("x1", 4.0, 100.0), ("x2", 6.0, 101.0)
    assert book_answer(desk, order, answer_of("submitted")) == 0
    assert shown(desk) == ("submitted", {}, 100_000, 0)
    part = answer_of("partially_filled", one)
    assert [book_answer(desk, order, part), book_answer(desk, order, part)] == [1, 0]
    assert shown(desk) == ("partially_filled", {"AAA": 4}, 100_000 - 400.5, 1)
    whole = answer_of("filled", one, two)
    assert [book_answer(desk, order, whole), book_answer(desk, order, whole)] == [1, 0]
    assert shown(desk) == ("filled", {"AAA": 10}, 100_000 - 400.5 - 606.5, 2)


def test_a_fee_that_is_kept_of_a_purchase_is_a_cost_and_no_cash(new_desk: NewDesk) -> None:
    """Twice in parts and each once; the books from the first row on are those that were kept."""
    desk = new_desk()
    order = sent(desk)
    parts = [("x1", 4.0, 100.0, 0.01), ("x2", 3.0, 110.0, 0.02), ("x3", 3.0, 90.0, 0.0)]
    made = [
        {"id": id_, "quantity": part, "price": price, "commission": kept * price, "kept": kept or None, "at": AT}
        for id_, part, price, kept in parts
    ]
    for status, rows in (("partially_filled", made[:1]), ("filled", made), ("filled", made)):
        book_answer(
            desk, order, BrokerAnswer.model_validate({"status": status, "broker_order_id": "b1", "fills": rows})
        )
    assert shown(desk) == ("filled", {"AAA": 9.97}, 100_000 - 400 - 330 - 270, 3)
    assert [fill.commission for fill in desk.fills()] == [1.0, 2.2, 0.0]
    with desk.store.read() as session:
        whole = books_of(session, desk.settings.account, 0.0)
        held = session.get_one(Position, (desk.settings.account, "AAA"))
    assert whole.cash == exact(desk.cash())
    assert (float(whole.held["AAA"][0]), float(whole.held["AAA"][1])) == (
        held.quantity,
        pytest.approx(held.average_cost),
    )


def test_old_news_of_an_order_at_work_is_passed_over(new_desk: NewDesk) -> None:
    desk = new_desk()
    order = sent(desk)
    book_answer(desk, order, answer_of("partially_filled", ("x1", 4.0, 100.0), ("x2", 2.0, 100.0)))
    before = shown(desk)
    for old in (answer_of("submitted"), answer_of("partially_filled", ("x1", 4.0, 100.0))):
        assert book_answer(desk, order, old) == 0
    assert shown(desk) == before


def test_fills_without_an_id_go_by_their_place(new_desk: NewDesk) -> None:
    desk = new_desk()
    order = sent(desk)
    book_answer(desk, order, answer_of("partially_filled", (None, 5.0, 100.0)))
    book_answer(desk, order, answer_of("filled", (None, 5.0, 100.0), (None, 5.0, 100.0)))
    assert shown(desk) == ("filled", {"AAA": 10}, 100_000 - 1001, 2)


@pytest.mark.parametrize("status", ["cancelled", "expired"])
def test_a_fill_before_the_end_stays(new_desk: NewDesk, status: str) -> None:
    desk = new_desk()
    order = sent(desk)
    book_answer(desk, order, answer_of(status, ("x1", 4.0, 100.0), message="over"))
    assert shown(desk) == (status, {"AAA": 4}, 100_000 - 400.5, 1)
    assert desk.orders()[0].message == "over"


PART = answer_of("partially_filled", ("x1", 4.0, 100.0))
IMPOSSIBLE: list[tuple[str, BrokerAnswer, BrokerAnswer | None]] = [
    ("filled with nothing", answer_of("filled"), None),
    ("filled by less than all", answer_of("filled", ("x1", 9.0, 100.0)), None),
    ("filled by more than all", answer_of("filled", ("x1", 11.0, 100.0)), None),
    ("a part that is all", answer_of("partially_filled", ("x1", 10.0, 100.0)), None),
    ("rejected with a fill", answer_of("rejected", ("x1", 1.0, 100.0)), None),
    ("submitted with a fill", answer_of("submitted", ("x1", 1.0, 100.0)), None),
    ("the same fill by another id", answer_of("partially_filled", ("y1", 4.0, 100.0)), PART),
    ("an end with fewer fills", answer_of("cancelled"), PART),
    ("a fill after the end", answer_of("partially_filled", ("x1", 4.0, 100.0)), answer_of("cancelled")),
]  # fmt: skip


@pytest.mark.parametrize(("what", "answer", "before"), IMPOSSIBLE, ids=[what for what, _, _ in IMPOSSIBLE])
def test_an_impossible_answer_is_not_booked(
    new_desk: NewDesk, what: str, answer: BrokerAnswer, before: BrokerAnswer | None
) -> None:
    desk = new_desk()
    order = sent(desk)
    if before is not None:
        book_answer(desk, order, before)
    then = shown(desk)
    with pytest.raises(OrderError):
        book_answer(desk, order, answer)
    assert shown(desk) == then


@pytest.mark.parametrize("state", ["drafted", "previewed", "approval_pending", "approved", "denied"])
def test_an_order_never_sent_is_never_filled(new_desk: NewDesk, state: str) -> None:
    desk = new_desk()
    order = sent(desk, state)
    with pytest.raises(OrderError, match=f"is {state} and cannot become filled"):
        book_answer(desk, order, answer_of("filled", ("x1", 10.0, 100.0)))
    assert shown(desk) == (state, {}, 100_000, 0)


_homes = itertools.count()
PARTS = st.lists(st.integers(1, 4), min_size=1, max_size=5).filter(lambda parts: sum(parts) <= 10)


@rules(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(parts=PARTS, order_of_parts=st.lists(st.integers(0, 5), min_size=1, max_size=10))
def test_answers_in_any_order_and_number_book_the_longest_one(
    template_db: Path, tmp_path: Path, parts: list[int], order_of_parts: list[int]
) -> None:
    desk = make_desk(template_db, tmp_path / str(next(_homes)))
    order = sent(desk)
    fills: list[FillRow] = [(f"x{number}", float(count), 100.0) for number, count in enumerate(parts)]
    most = 0
    for count in order_of_parts:
        so_far = fills[:count]
        shares = sum(fill[1] for fill in so_far)
        status = "submitted" if not so_far else "filled" if shares == 10 else "partially_filled"
        book_answer(desk, order, answer_of(status, *so_far))
        most = max(most, len(so_far))
    booked = sum(fill[1] for fill in fills[:most])
    assert desk.positions() == ({"AAA": booked} if booked else {})
    assert desk.cash() == 100_000 - booked * 100 - most * 0.5
    expected = (
        OrderState.SUBMITTED if not booked else OrderState.FILLED if booked == 10 else OrderState.PARTIALLY_FILLED
    )
    assert desk.orders()[0].state == expected
    desk.store.close()


@pytest.fixture
def drafted(new_desk: NewDesk) -> tuple[Desk, str]:
    desk = new_desk(trader_live=False)
    outcome = desk.run(action())[0]
    return desk, str(outcome.order_id)


def _set(desk: Desk, state: OrderState) -> None:
    with desk.store.session() as session:
        session.exec(update(Order).values(state=state.value))


def _state(desk: Desk) -> str:
    return desk.orders()[0].state


@pytest.mark.parametrize("was", list(OrderState))
def test_only_transitions_of_the_table_are_written(drafted: tuple[Desk, str], was: OrderState) -> None:
    desk, order_id = drafted
    for to in OrderState:
        _set(desk, was)
        if to in ORDER_NEXT[was]:
            with desk.store.session() as session:
                advance(session, load_order(session, order_id), to, message=f"to {to}")
            assert (_state(desk), desk.orders()[0].message) == (to, f"to {to}")
        else:
            with pytest.raises(OrderError, match=f"is {was} and cannot become {to}"), desk.store.session() as session:
                advance(session, load_order(session, order_id), to)
            assert _state(desk) == was


def test_a_row_that_another_process_moved_is_left_alone(drafted: tuple[Desk, str]) -> None:
    desk, order_id = drafted
    with desk.store.read() as session:
        seen = load_order(session, order_id)
    _set(desk, OrderState.DENIED)
    with pytest.raises(OrderError, match="no longer previewed"), desk.store.session() as session:
        advance(session, session.merge(seen, load=False), OrderState.APPROVED)
    assert _state(desk) == OrderState.DENIED


def emitted(desk: Desk, run_id: str) -> list[Envelope]:
    with desk.store.read() as session:
        return event_log.read(session, run_id, 0, 100)


def of_order(desk: Desk, run_id: str, *names: str) -> list[tuple[Any, ...]]:
    return [(one.type.value, *(one.payload.get(name) for name in names)) for one in emitted(desk, run_id)]


def test_a_filled_order_emits_each_of_its_states_and_the_fill(new_desk: NewDesk) -> None:
    desk = new_desk()
    desk.process(desk.decide(action()))
    (order,), (fill,) = desk.orders(), desk.fills()
    found = of_order(desk, order.run_id, "was", "state", "order")
    states = [None, "drafted", "previewed", "approved", "submitting", "filled"]
    expected = [("order.state", was, state, order.id) for was, state in pairwise(states)]
    assert [one for one in found if one[0] == "order.state"] == expected
    (filled,) = [one for one in emitted(desk, order.run_id) if one.type is EventType.ORDER_FILL]
    assert filled.domain is Domain.ORDER
    assert (filled.payload["order"], filled.payload["fill"]) == (order.id, fill.id)
    assert (filled.payload["symbol"], filled.payload["quantity"], filled.payload["price"]) == ("AAA", 10, fill.price)


@pytest.mark.parametrize("yes", [True, False])
def test_a_question_and_its_answer(new_desk: NewDesk, yes: bool) -> None:
    desk = new_desk(approval="manual")
    desk.process(desk.decide(action()))
    (order,) = desk.orders()
    with desk.store.session() as session:
        answered = approvals.decide(session, desk.settings, order.id, yes, "somebody", "because")
    asked, decided = [one for one in emitted(desk, order.run_id) if one.domain is Domain.APPROVAL]
    assert (asked.type, asked.approval_id) == (EventType.APPROVAL_ASKED, answered.id)
    assert (asked.payload["order"], asked.payload["notional"]) == (order.id, answered.notional)
    assert (decided.type, decided.approval_id) == (EventType.APPROVAL_DECIDED, answered.id)
    decision = "approved" if yes else "denied"
    assert (decided.payload["decision"], decided.payload["by"], decided.payload["why"]) == (
        decision, "somebody", "because",
    )  # fmt: skip


def test_halting_is_published_on_the_desks_own_stream(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual")
    desk.process(desk.decide(action()))
    (order,) = desk.orders()
    halting.halt(desk.store, "paper", "a test", "somebody")
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody", "slowly", reduce_only=True)
        halting.resume(session, desk.settings, "paper", "another")
    found = [(one.type.value, *one.payload.values()) for one in emitted(desk, DESK)]
    assert found == [
        ("order.trading", "paper", "halted", "a test", "somebody"),
        ("order.trading", "paper", "reducing", "slowly", "somebody"),
        ("order.trading", "paper", "active", "", "another"),
    ]
    assert of_order(desk, order.run_id, "state")[-1] == ("order.state", "denied")


def test_a_change_that_is_rolled_back_emits_no_event(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual")
    desk.process(desk.decide(action()))
    (order,) = desk.orders()
    before = emitted(desk, order.run_id)
    with pytest.raises(OrderError), desk.store.session() as session:
        row = load_order(session, order.id)
        advance(session, row, OrderState.APPROVED)
        advance(session, row, OrderState.FILLED)  # which may not follow
    assert emitted(desk, order.run_id) == before
