"""Every decision is on record once, with what was recommended and why some of it became no order."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlmodel import select, update

from chordesk.models.errors import OrderError
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Decision
from chordesk.tools.orders.audit import AuditEntry
from chordesk.tools.orders.audit_reading import check_logs, last_entries
from chordesk.tools.orders.drafting import LINE_CHARS, LINES_A_SYMBOL, LINES_AT_MOST, claim_decision, last_notes
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.tape import Tape

NewDesk = Callable[..., Desk]
QUIET = action("CCC", kind="watch", quantity=None, reasoning="too dear now")


def lines(desk: Desk, kind: str = "decision") -> list[AuditEntry]:
    (chain,) = check_logs(desk.store, desk.settings)
    assert chain.whole
    return [entry for entry in last_entries([chain], 1000) if entry.kind == kind]


@pytest.mark.parametrize("live", [True, False])
def test_a_decision_that_orders_nothing_is_on_record_with_its_reasons(new_desk: NewDesk, live: bool) -> None:
    desk = new_desk(trader_live=live)
    decision = desk.decide(action("AAA", kind="hold", quantity=None, reasoning=""), QUIET)
    assert desk.process(decision) == []
    (line,) = lines(desk)
    assert (line.facts["decision"], line.facts["account"], line.facts["by"]) == (decision, "paper", "a test")
    assert [row["action"] for row in line.facts["actions"]] == ["hold", "watch"]
    assert line.facts["suppressed"] == [
        {"ordinal": 0, "why": "hold: no reason given"},
        {"ordinal": 1, "why": "watch: too dear now"},
    ]


def test_an_order_that_is_denied_at_once_has_a_reason_and_one_that_goes_on_has_none(new_desk: NewDesk) -> None:
    desk = new_desk(trader_live=False)
    desk.run(action("AAA"), action("BBB", side="sell"), QUIET, "buy everything")
    (line,) = lines(desk)
    assert [row["ordinal"] for row in line.facts["suppressed"]] == [1, 2, 3]
    assert line.facts["suppressed"][0]["why"].startswith("malformed: the side sell contradicts the action open")
    assert line.facts["actions"][3] == "buy everything"
    assert len(lines(desk, "drafted")) == 3


@pytest.mark.both_databases
@pytest.mark.parametrize("actions", [(), (QUIET,), (action(), QUIET)])
def test_a_decision_that_is_delivered_twice_is_on_record_once(new_desk: NewDesk, actions: tuple[object, ...]) -> None:
    desk = new_desk()
    decision = desk.decide(*actions)
    for live in (False, True, True):
        desk.process(decision, trader_live=live)
    assert len(lines(desk)) == 1


@pytest.mark.both_databases
def test_a_decision_that_could_not_be_put_on_record_is_the_next_time(new_desk: NewDesk) -> None:
    desk = new_desk(trader_live=False)
    decision = desk.decide(QUIET)
    in_the_way = desk.settings.home / "audit"
    in_the_way.write_text("in the way")
    with pytest.raises(OrderError, match=r"cannot be written \(decision\)"):
        desk.process(decision)
    in_the_way.unlink()
    desk.process(decision)
    assert len(lines(desk)) == 1


@pytest.mark.both_databases
def test_of_two_at_once_one_takes_a_decision_up(new_desk: NewDesk) -> None:
    desk = new_desk()
    decision = desk.decide(QUIET)

    def take(_: int) -> bool:
        with desk.store.session() as session:
            return claim_decision(session, session.get_one(Decision, decision))

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(take, range(4))) == [False, False, False, True]
    with desk.store.read() as session:
        assert session.exec(select(Decision)).one().processed_at is not None


DAY = dt.timedelta(days=1)


def remembered(desk: Desk, *symbols: str) -> dict[str, list[str]]:
    with desk.store.read() as session:
        return last_notes(session, desk.settings, "paper", symbols, desk.market.clock.now())


def test_each_action_leaves_a_line(new_desk: NewDesk) -> None:
    desk = new_desk(cooldown_hours=24)
    quiet = action("CCC", kind="watch", quantity=None, reasoning="too\ndear   now")
    desk.run(action("AAA"), action("BBB", quantity=10_000), quiet)
    assert remembered(desk, "AAA", "BBB", "CCC", "DDD") == {
        "AAA": [
            "2010-08-12 open AAA: buy 10 at 100.00: filled, 10 filled; nothing opens on it before 2010-08-13 19:55 UTC"
        ],
        "BBB": ["2010-08-12 open BBB: not sent, notional_per_order: 10000 BBB at 50.00 is more than one order may be"],
        "CCC": ["2010-08-12 watch CCC: no order; too dear now"],
    }
    (again,) = desk.run(action("AAA", kind="add"))
    assert again.denied is not None
    assert remembered(desk, "AAA")["AAA"][1] == (
        "2010-08-12 add AAA: not sent, cooldown: AAA rests after its last order, buy AAA; 24 h of market time remain"
    )


def test_a_line_has_the_present_state_of_an_order(new_desk: NewDesk) -> None:
    desk = new_desk(trader_live=False, cooldown_hours=1)
    desk.run(action("AAA"))
    for state, expected in (
        (OrderState.APPROVAL_PENDING, "waits for a person's approval"),
        (OrderState.UNKNOWN, "unknown, 0 filled; nothing opens on it before 2010-08-12 20:55 UTC"),
        (OrderState.REJECTED, "rejected, 0 filled"),
    ):
        with desk.store.session() as session:
            session.exec(update(Order).values(state=state.value, message="the broker names 99.17"))
        assert remembered(desk, "AAA") == {"AAA": [f"2010-08-12 open AAA: buy 10 at 100.00: {expected}"]}


def test_a_line_has_no_price_that_is_not_known_yet(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0}, opens={"AAA": 103.17, "BBB": 66.6})
    desk = new_desk(market)
    desk.run(action("AAA"), action("BBB", orderType="limit", limitPrice=50.0))
    assert [fill.price for fill in desk.fills()] == [103.17]
    text = str(remembered(desk, "AAA", "BBB"))
    assert "103.17" not in text
    assert "66.6" not in text


@pytest.mark.both_databases
def test_the_last_lines_of_a_symbol_and_none_of_later_days(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0})
    market.clock.at -= 3 * DAY  # a Monday
    desk = new_desk(market, trader_live=False)
    for _ in range(LINES_A_SYMBOL + 1):
        desk.run(action("AAA"))
        market.clock.at += DAY
    days = [line[:10] for line in remembered(desk, "AAA")["AAA"]]
    assert days == ["2010-08-10", "2010-08-11", "2010-08-12"]
    market.clock.at = market.clock.at.replace(day=10)  # a replay that is set back
    assert [line[:10] for line in remembered(desk, "AAA")["AAA"]] == ["2010-08-09", "2010-08-10"]


def test_lines_are_bounded(new_desk: NewDesk) -> None:
    symbols = [f"S{number}" for number in range(LINES_AT_MOST + 5)]
    desk = new_desk(trader_live=False)
    long = [action(symbol, kind="hold", quantity=None, reasoning="why " * 500) for symbol in symbols]
    desk.run(*long)
    lines = [line for found in remembered(desk, *symbols).values() for line in found]
    assert len(lines) == LINES_AT_MOST
    assert max(map(len, lines)) <= LINE_CHARS
