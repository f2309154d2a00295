"""What changed since a moment."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.notices import note
from chordesk.models.settings import Settings
from chordesk.models.states import OrderState, RunState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import EquityMark, Fill, Order
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import Notice
from chordesk.tasks.reading.changes import changes, last_close, since_of
from tests.builders import a_candidate, a_run, a_verdict_on
from tests.tasks.views.chain import a_chain

HOUR = dt.timedelta(hours=1)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def test_it_tells_what_came_after_the_moment_and_nothing_before(store: Store, settings: Settings) -> None:
    now = utcnow()
    with store.session() as session:
        earlier = a_run(session, state=RunState.DONE, finished_at=now - 3 * HOUR, created_at=now - 4 * HOUR)
        earlier.settings = {"protect": "none", "model": "rulebook"}
        old = a_verdict_on(session, a_candidate(session, earlier, "ACME").id, rating="PASS")
        old.created_at = now - 3 * HOUR
        for days, last in ((3, 100_000.0), (0, 100_250.5)):
            mark = EquityMark(account="paper", day=dt.date(2010, 8, 12 - days), opening=1.0, last=last, high_water=last)
            mark.updated_at = now - days * HOUR
            session.add(mark)
        aside = a_run(session, kind="ask", created_at=now - HOUR)  # its budget is its own
        aside.settings = {"protect": "aside", "model": "rulebook"}
        chain = a_chain(session)
        run = session.get_one(Run, chain.run_id)
        run.state, run.finished_at, run.settings = RunState.DONE, now, {"protect": "stop:8%", "model": "rulebook"}
        order = session.get_one(Order, chain.order_id)
        order.state = OrderState.FILLED
        fill = Fill(
            order_id=order.id, account="paper", symbol="ACME", side="buy", quantity=3.0, price=10.5, commission=0.0,
            filled_at=run.market_now,
        )  # fmt: skip
        session.add(fill)
        for account in ("paper", "elsewhere"):
            facts = {"account": account, "state": "halted", "why": "a fire", "by": "ada"}
            note(session, Notice(key=account, kind="halt", run_id="desk", subject=account, facts=facts))
    with store.read() as session:
        found = changes(session, settings, "paper", now - 2 * HOUR)
        elsewhere = changes(session, settings, "nobody", now - 2 * HOUR)
    told = {(one.kind, one.text) for one in found.changes}
    assert ("verdict", "ACME: PASS became BUY (medium)") in told
    assert ("fill", "bought 3 ACME at 10.5") in told
    assert ("trading", "paper is halted, by ada: a fire") in told
    assert ("setting", "DESK_PROTECT was none, is stop:8%") in told
    assert "aside" not in str(told)
    assert [one.run_id for one in found.changes if one.kind == "run"] == [chain.run_id]
    assert not any(one.order_id == chain.order_id for one in found.changes if one.kind == "order")  # its fill tells it
    assert "elsewhere" not in str(told)
    assert (found.equity_before, found.equity) == (100_000.0, 100_250.5)
    assert elsewhere.changes == []
    assert elsewhere.equity is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("90m", dt.datetime(2026, 11, 30, 13, 30, tzinfo=dt.UTC)),
        ("2d", dt.datetime(2026, 11, 28, 15, tzinfo=dt.UTC)),
        ("2026-11-27", dt.datetime(2026, 11, 27, 5, tzinfo=dt.UTC)),  # midnight in New York
        ("2026-11-27T09:30+01:00", dt.datetime(2026, 11, 27, 8, 30, tzinfo=dt.UTC)),
        (None, dt.datetime(2026, 11, 27, 18, tzinfo=dt.UTC)),  # the half day after Thanksgiving, and a weekend since
    ],
)
def test_a_moment_is_read_at_the_desks_exchange(settings: Settings, text: str | None, found: dt.datetime) -> None:
    now = dt.datetime(2026, 11, 30, 15, tzinfo=dt.UTC)
    assert since_of(text, settings, now) == found
    assert last_close(settings, now) == dt.datetime(2026, 11, 27, 18, tzinfo=dt.UTC)


@pytest.mark.parametrize("text", ["", "soon", "-3d", "9999999999d", "2026-13-01", "2027-01-01", "٣d", "3d\x00"])
def test_no_moment_and_one_to_come_are_refused_with_the_text(settings: Settings, text: str) -> None:
    with pytest.raises(UsageError, match=r"--since '.*' is (no moment|still to come)") as refused:
        since_of(text, settings, dt.datetime(2026, 11, 30, 15, tzinfo=dt.UTC))
    assert refused.value.remedy
