"""The kill switch: a file and a row, asked within the submit step itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from models.errors import OrderError
from models.order_tables import Trading
from models.orders import DenialCode
from models.states import OrderState, TradingState
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.tape import Tape
from tools.orders import halting
from tools.orders.auditing import check_logs
from tools.orders.tending import tend

NewDesk = Callable[..., Desk]


def _halt(desk: Desk, why: str = "a test") -> list[str]:
    with desk.store.session() as session:
        return halting.halt(session, desk.settings, "paper", why, "somebody")


def _state(desk: Desk) -> tuple[TradingState, str]:
    with desk.store.read() as session:
        return halting.trading_state(session, desk.settings, "paper")


def test_no_file_and_no_row_is_active(new_desk: NewDesk) -> None:
    assert _state(new_desk()) == (TradingState.ACTIVE, "")


def test_the_file_wins_over_the_row(new_desk: NewDesk) -> None:
    desk = new_desk()
    with desk.store.session() as session:
        halting.reduce_only(session, desk.settings, "paper", "calm down", "somebody")
    assert _state(desk)[0] is TradingState.REDUCING
    path = halting.write_file(desk.settings, "fire", "somebody")
    state, why = _state(desk)
    assert state is TradingState.HALTED
    assert "fire (somebody" in why
    assert str(path) in why


@pytest.mark.parametrize("content", ["folder", "bytes", "empty"])
def test_a_file_that_cannot_be_read_or_says_nothing_halts(new_desk: NewDesk, content: str) -> None:
    desk = new_desk()
    path = halting.halt_file(desk.settings)
    if content == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"\xff\xfe" if content == "bytes" else b"")
    assert _state(desk)[0] is TradingState.HALTED


def test_a_row_with_a_word_that_means_nothing_halts(new_desk: NewDesk) -> None:
    desk = new_desk()
    with desk.store.session() as session:
        session.add(Trading(account="paper", state="calm", why="", by="somebody"))
    assert _state(desk)[0] is TradingState.HALTED


@pytest.mark.parametrize("by", ["file", "row"])
def test_halted_everything_is_denied_and_resume_lets_it_go_on(new_desk: NewDesk, by: str) -> None:
    desk = new_desk()
    if by == "file":
        halting.write_file(desk.settings, "fire", "somebody")
    else:
        _halt(desk, "fire")
    (outcome,) = desk.run(action())
    assert outcome.denied is not None
    assert outcome.denied.code is DenialCode.HALTED
    assert "fire" in outcome.denied.reason
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody")
    assert _state(desk) == (TradingState.ACTIVE, "")
    assert desk.run(action())[0].state == OrderState.FILLED


@pytest.mark.parametrize("by", ["file", "row"])
def test_a_halt_while_an_order_is_with_the_broker_stops_the_next_one(new_desk: NewDesk, by: str) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0})
    desk = new_desk(market)

    def stop() -> None:
        market.on_fill = None
        if by == "file":
            halting.write_file(desk.settings, "fire", "somebody")
        else:
            _halt(desk)

    market.on_fill = stop
    first, second = desk.run(action(), action("BBB"))
    assert first.state == OrderState.FILLED
    assert second.denied is not None
    assert second.denied.code is DenialCode.HALTED


def test_an_order_that_a_halt_did_not_see_is_cancelled_by_who_sent_it(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0}, opens={"AAA": None})
    desk = new_desk(market)

    def stop() -> None:
        market.on_fill = None
        _halt(desk)

    market.on_fill = stop
    (outcome,) = desk.run(action())
    assert outcome.state == OrderState.CANCELLED


def test_a_halt_denies_what_waits_and_the_trade_queue_cancels_what_is_open(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0}, opens={"AAA": None})
    desk = new_desk(market, approval="above:600")
    resting, waiting = desk.run(action(quantity=5), action("BBB", quantity=20))
    assert (resting.state, waiting.state) == ("submitted", "approval_pending")
    assert _halt(desk) == [str(waiting.order_id)]
    tend(desk.funnel())
    assert {row.symbol: row.state for row in desk.orders()} == {"AAA": "cancelled", "BBB": "denied"}
    assert tend(desk.funnel())["open"] == 0


def test_reducing_lets_exposure_be_given_back_alone(new_desk: NewDesk) -> None:
    desk = new_desk()
    desk.hold("AAA", 10, 100.0)
    with desk.store.session() as session:
        halting.reduce_only(session, desk.settings, "paper", "calm down", "somebody")
    sold, bought = desk.run(action(kind="close"), action("BBB"))
    assert sold.state == OrderState.FILLED
    assert bought.denied is not None
    assert bought.denied.code is DenialCode.REDUCING


def test_what_was_done_is_on_record(new_desk: NewDesk) -> None:
    desk = new_desk()
    _halt(desk)
    desk.run(action())
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody")
    desk.run(action())
    (chain,) = check_logs(desk.store, desk.settings)
    assert chain.whole
    kinds = [entry.kind for entry in chain.reading.entries if entry.kind not in ("opened", "reconciled")]
    assert kinds == [
        "halt", "drafted", "denied", "resume", "drafted", "previewed", "approved", "submitting", "answer", "fill",
    ]  # fmt: skip


def test_what_cannot_be_put_on_record_does_not_happen(new_desk: NewDesk) -> None:
    desk = new_desk()
    (desk.settings.home / "audit").write_text("in the way")
    with pytest.raises(OrderError, match="cannot be written"):
        desk.run(action())
    assert desk.orders() == []
