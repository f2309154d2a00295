"""Protective orders of real money: a mandate binds what is sent, and its end takes no protection away."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chordesk.tasks.cli import arming
from chordesk.tools.orders import halting
from chordesk.tools.orders import halting as disarming
from chordesk.tools.orders.protection import Unprotected, unprotected
from tests.fakes.alpaca import Alpaca
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.protection.test_at_alpaca import working
from tests.tools.orders.protection.watch import a_pass, covered
from tests.tools.orders.tape import Tape

NewDesk = Callable[..., Desk]


class Owner:
    """A person that arms a desk with real money and a stop of 8 % at each fill."""

    def __init__(self, new_desk: NewDesk, alpaca: Alpaca) -> None:
        self.key = Ed25519PrivateKey.generate()
        terms = {"broker": "alpaca-live", "approval": "auto", "protect": "stop:8%"}
        public = arming.public_text(self.key)
        self.desk = new_desk(Tape({"AAA": 100.0, "BBB": 50.0}), mandate_public_key=public, **terms)

    def arm(self, *symbols: str, **changes: Any) -> None:
        wanted = {"max_notional": Decimal(2_000), "max_orders": 1, "symbols": list(symbols), "hours": 8.0, **changes}
        arming.arm(self.desk.store, self.desk.settings, self.key, "alpaca-live", by="ann", **wanted)

    def disarm(self) -> None:
        disarming.disarm(self.desk.store, self.desk.settings, "alpaca-live", "ann")

    def buy_a_part(self) -> str:
        """Buy 10 AAA, of which 5 are filled; the order's id."""
        (order,) = self.desk.run(action())
        assert order.state == "partially_filled"
        return str(order.order_id)

    def unprotected(self) -> list[Unprotected]:
        with self.desk.store.read() as session:
            return unprotected(session, self.desk.settings)


@pytest.fixture
def owner(new_desk: NewDesk, alpaca: Alpaca) -> Owner:
    alpaca.fills, alpaca.reserves = "part", True
    return Owner(new_desk, alpaca)


def test_a_mandate_that_is_used_up_still_lets_its_positions_be_protected(owner: Owner, alpaca: Alpaca) -> None:
    owner.arm("AAA")
    bought = owner.buy_a_part()
    assert working(alpaca) == [("stop", "5", "92")]
    alpaca.fill(bought, 5, 110)
    assert a_pass(owner.desk)["unprotected"] == 0
    assert working(alpaca) == [("stop", "10", "96.6")]
    covered(owner.desk)


def test_the_end_of_a_mandate_leaves_a_stop_although_it_does_not_fit_any_more(owner: Owner, alpaca: Alpaca) -> None:
    """To cancel it would take the protection of all for want of that of a part."""
    owner.arm("AAA")
    bought = owner.buy_a_part()
    owner.disarm()
    alpaca.fill(bought, 5, 110)
    for _ in range(2):
        a_pass(owner.desk)
        assert working(alpaca) == [("stop", "5", "92")]
    (left,) = owner.unprotected()
    assert (left.symbol, left.quantity) == ("AAA", 5)
    assert left.why.startswith("mandate 1 was disarmed by ann")
    owner.arm("AAA")
    a_pass(owner.desk)
    assert (working(alpaca), owner.unprotected()) == ([("stop", "10", "96.6")], [])


def test_a_mandate_of_other_symbols_places_and_moves_no_stop(owner: Owner, alpaca: Alpaca) -> None:
    owner.arm("AAA")
    bought = owner.buy_a_part()
    owner.arm("BBB")
    alpaca.fill(bought, 5, 110)
    assert a_pass(owner.desk)["unprotected"] == 1
    assert working(alpaca) == [("stop", "5", "92")]
    assert owner.unprotected() == [Unprotected("AAA", 5, 5, "mandate 2 does not name AAA")]


def test_a_stop_that_could_sell_more_than_is_held_goes_in_any_case(owner: Owner, alpaca: Alpaca) -> None:
    owner.arm("AAA")
    bought = owner.buy_a_part()
    alpaca.fill(bought, 5, 110)
    a_pass(owner.desk)
    owner.disarm()
    owner.desk.hold("AAA", -4, 100.0)  # delivered elsewhere
    alpaca.positions["AAA"] = (Decimal(6), Decimal(105))
    a_pass(owner.desk)
    assert working(alpaca) == []
    assert [(row.symbol, row.quantity) for row in owner.unprotected()] == [("AAA", 6)]


def test_a_halt_leaves_a_stop_that_does_not_fit_any_more(owner: Owner, alpaca: Alpaca) -> None:
    owner.arm("AAA")
    bought = owner.buy_a_part()
    alpaca.fill(bought, 5, 110)  # before anything could be cancelled
    halting.halt(owner.desk.store, "alpaca-live", "a test", "somebody")
    a_pass(owner.desk)
    assert working(alpaca) == [("stop", "5", "92")]
    (left,) = owner.unprotected()
    assert left.why.startswith("trading is halted: a test")
