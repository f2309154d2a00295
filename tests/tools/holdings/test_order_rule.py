"""The whole book judges an order when it is previewed and again when it is sent; exits pass."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from chordesk.models.orders import Cleared, DenialCode, Denied
from chordesk.models.statements import Holding, Statement
from chordesk.models.states import OrderState
from chordesk.tools.holdings.order_rule import CODE
from chordesk.tools.holdings.whole_book import OutsideBook, Part
from chordesk.tools.risk.pre_trade import check, measured
from tests.examples import examples
from tests.tools.holdings.test_keeping import a_read, imported
from tests.tools.holdings.test_whole_book import book, parts, share
from tests.tools.orders.conftest import new_desk  # noqa: F401
from tests.tools.orders.desk import Desk, action, denied
from tests.tools.orders.tape import Tape
from tests.tools.risk.figures import account, context, limits, ticket

WHOLE = DenialCode(CODE)
SECTORS = {"AAA": "tools", "BBB": "tools", "CCC": "food"}


def judged(outside: OutsideBook | Exception | None, **changes: float) -> Cleared | Denied:
    """An order for 10 shares of AAA at 100, an account of 100,000 with a limit of a tenth by symbol."""
    known = {"max_symbol_share": 0.1, "max_sector_share": 1.0, **changes}
    return check(ticket(), context(sectors={"AAA": "tools"}, facts={CODE: outside}), limits(**known))


def test_an_order_fills_the_limit_of_the_whole_to_the_cent_and_no_further() -> None:
    """By hand: a tenth of 100,000 + 50,000 is 15,000; with 1,000 of the order 14,000 may be held outside."""
    cash = Part(None, "cash", 36_000.0)
    assert isinstance(judged(book(share("AAA", 14_000.0), cash)), Cleared)
    found = judged(book(share("AAA", 14_000.02), cash))
    assert (found.code, found.reason) == (WHOLE, "AAA would be too large a share of the whole book")
    assert not any(digit in f"{found.reason} {found.measured}" for digit in "0123456789"), "it tells no amount"


def test_the_sector_of_the_whole_counts_what_may_be_in_it() -> None:
    """By hand: a fifth of 100,000 + 24,000 is 24,800; with 1,000 of the order 23,800 may be held."""
    outside = [share("BBB", 23_800.0), Part(None, "cash", 200.0)]
    tight = {"max_symbol_share": 1.0, "max_sector_share": 0.2}
    assert isinstance(judged(OutsideBook(tuple(outside), sectors=SECTORS), **tight), Cleared)
    outside[0] = share("BBB", 23_801.0)
    assert judged(OutsideBook(tuple(outside), sectors=SECTORS), **tight).code == WHOLE
    assert judged(OutsideBook(tuple(outside)), **tight).code == WHOLE, "its sector is not known"
    assert isinstance(judged(OutsideBook(tuple(outside), sectors={"BBB": "food"}), **tight), Cleared)


def test_what_is_not_known_denies_as_it_leaves_a_size_of_none() -> None:
    assert judged(book(share("AAA", None))).code == WHOLE
    assert judged(book(Part(None, "cash", None, short=True))).code == WHOLE
    assert isinstance(judged(book(share("CCC", None))), Cleared)
    assert judged(book(Part(None, "cash", float("inf")))).code == WHOLE
    lost = judged(ValueError("no such day"))
    assert (lost.code, "no such day" in lost.reason) == (WHOLE, True)


def test_an_exit_passes_and_has_no_line_of_it() -> None:
    exit_ = ticket(action="close", side="sell")
    held = context(account=account(AAA=10), facts={})
    assert isinstance(check(exit_, held, limits()), Cleared)
    assert not any(WHOLE in one.codes for one in measured(exit_, held, limits()))
    unread = check(ticket(), context(facts={}), limits())
    assert (unread.code, "nothing was collected" in unread.reason) == (WHOLE, True)


@given(outside=st.lists(parts, max_size=8), quantity=st.integers(1, 300))
@settings(max_examples=examples(100), deadline=None)
def test_nothing_outside_lets_an_order_pass_that_is_denied_without_it(outside: list[Part], quantity: int) -> None:
    order, known = ticket(quantity=quantity), limits(max_symbol_share=0.1, max_sector_share=0.2)
    without, beside = (
        check(order, context(sectors=SECTORS, facts={CODE: one}), known) for one in (None, book(*outside))
    )
    assert isinstance(without, Cleared) or beside == without


def hold_outside(desk: Desk, worth: int) -> None:
    row = Holding(1, "AAA", "share", Decimal(worth), "USD", "AAA", None, Decimal(1), rate=Decimal(1))
    imported(desk.store, a_read(Statement("", (row,), dt.date(2010, 8, 11))), "savings")


def test_an_order_is_judged_at_its_preview_and_again_when_it_is_sent(new_desk: Callable[..., Desk]) -> None:  # noqa: F811
    desk = new_desk(Tape({"AAA": 100.0, "BBB": 100.0}))
    desk.hold("AAA", 10, 100.0)
    decision = desk.decide(action("BBB"), action("AAA", "add"))
    previewed = desk.process(decision, trader_live=False)
    assert [one.state for one in previewed] == [OrderState.PREVIEWED] * 2
    hold_outside(desk, 1_000_000)
    sent = desk.process(decision)
    assert sent[0].state == OrderState.FILLED
    assert "whole book" in denied(sent[1], WHOLE)
    again, left = desk.run(action("AAA", "add")), desk.run(action("AAA", "close"))
    assert "whole book" in denied(again[0], WHOLE)
    assert left[0].state == OrderState.FILLED
