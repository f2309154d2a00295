"""Every decision is on record once, with what was recommended and why some of it became no order."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlmodel import select

from chordesk.models.errors import OrderError
from chordesk.models.tables.runs import Decision
from chordesk.tools.orders.audit import AuditEntry
from chordesk.tools.orders.audit_reading import check_logs
from chordesk.tools.orders.drafting import claim_decision
from tests.tools.orders.desk import Desk, action

NewDesk = Callable[..., Desk]
QUIET = action("CCC", kind="watch", quantity=None, reasoning="too dear now")


def lines(desk: Desk, kind: str = "decision") -> list[AuditEntry]:
    (chain,) = check_logs(desk.store, desk.settings)
    assert chain.whole
    return [entry for entry in chain.reading.entries if entry.kind == kind]


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


@pytest.mark.parametrize("actions", [(), (QUIET,), (action(), QUIET)])
def test_a_decision_that_is_delivered_twice_is_on_record_once(new_desk: NewDesk, actions: tuple[object, ...]) -> None:
    desk = new_desk()
    decision = desk.decide(*actions)
    for live in (False, True, True):
        desk.process(decision, trader_live=live)
    assert len(lines(desk)) == 1


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
