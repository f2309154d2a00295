"""advance() is the only way on, and it takes no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as rules
from hypothesis import strategies as st
from sqlmodel import update

from chordesk.models.errors import OrderError
from chordesk.models.states import ORDER_FINAL, ORDER_NEXT, OrderState
from chordesk.models.tables.orders import Order
from chordesk.tools.orders.booking import advance, load_order
from tests.examples import examples
from tests.tools.orders.desk import Desk, action

NewDesk = Callable[..., Desk]


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


@rules(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(walk=st.lists(st.sampled_from(list(OrderState)), max_size=8))
def test_no_walk_leaves_a_final_state_or_the_table(drafted: tuple[Desk, str], walk: list[OrderState]) -> None:
    desk, order_id = drafted
    _set(desk, OrderState.DRAFTED)
    expected = OrderState.DRAFTED
    for to in walk:
        legal = to in ORDER_NEXT[expected]
        try:
            with desk.store.session() as session:
                advance(session, load_order(session, order_id), to)
        except OrderError:
            assert not legal
        else:
            assert legal
            assert expected not in ORDER_FINAL
            expected = to
        assert _state(desk) == expected


def test_a_row_that_another_process_moved_is_left_alone(drafted: tuple[Desk, str]) -> None:
    desk, order_id = drafted
    with desk.store.read() as session:
        seen = load_order(session, order_id)
    _set(desk, OrderState.DENIED)
    with pytest.raises(OrderError, match="no longer previewed"), desk.store.session() as session:
        advance(session, session.merge(seen, load=False), OrderState.APPROVED)
    assert _state(desk) == OrderState.DENIED
