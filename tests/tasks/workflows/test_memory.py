"""Memory in prompts: made of stored rows, of this account and market, up to now, and bounded."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import Session

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.orders import TraderNote
from chordesk.models.tables.runs import Decision, Run, ScreenHit
from chordesk.tasks.reading import memory
from chordesk.tasks.reading.memory import BYTES_A_TOKEN, fit, lens_memory, symbol_memory, trader_memory
from chordesk.tools.registry import ToolContext
from tests.tools.ledger_rows import NOW, add, add_candidate, add_report, add_run, add_turn, add_verdict
from tests.tools.orders.tape import Tape, TapeClock

DAY = dt.timedelta(days=1)


Context = Callable[..., ToolContext]


@pytest.fixture
def context(store: Store, tmp_path: Path) -> Context:
    def make(run_id: str | None = None, **settings: Any) -> ToolContext:
        market = Tape({"AAPL": 100.0}, clock=TapeClock(NOW), name="replay")
        return ToolContext(market, market.clock, store, Settings(home=tmp_path, **settings), "paper", run_id)

    return make


def remembered(context: ToolContext, symbol: str = "AAPL") -> str | None:
    assert context.store is not None
    with context.store.read() as session:
        return symbol_memory(session, context, symbol)


def researched(session: Session, at: dt.datetime, *roles: str, rating: str = "BUY", **changes: Any) -> Run:
    """A run with a report of each role and a verdict. changes: of the run, or by role of its report."""
    run = add_run(session, at, **{name: value for name, value in changes.items() if name not in roles})
    candidate = add_candidate(session, run, "AAPL")
    for role in roles:
        add_report(session, run, candidate, role, **changes.get(role, {}))
    add_verdict(session, run, candidate, rating)
    return run


def note(session: Session, line: str, at: dt.datetime = NOW, account: str = "paper") -> None:
    turn = add_turn(session, add_run(session, at))
    decision = Decision(
        run_id=turn.run_id, step_id=turn.step_id, turn_id=turn.id, account=account, status="completed", author="x"
    )
    add(session, decision)
    add(
        session,
        TraderNote(
            account=account, symbol="AAPL", decision_id=decision.id, ordinal=0, action="open", outcome="no_order",
            line=line, market_at=at,
        ),
    )  # fmt: skip


def test_verdict_thesis_points_major_risk_and_trade_note(context: Context, store: Store) -> None:
    with store.session() as session:
        old = {"summary": "Older.", "key_risks": ["old"]}
        researched(session, NOW - 5 * DAY, "quick", "fundamentals", "risk", rating="PASS", quick=old, risk=old)
        researched(
            session, NOW - DAY, "quick", "risk", "catalyst",
            quick={"summary": "Fast.", "key_risks": []},
            risk={"summary": "Calm  but\ndear.", "verdict": "CAUTION", "key_risks": ["drawdown 31%", "gap"]},
            catalyst={"summary": "Soon.", "key_risks": ["no date"]},
        )  # fmt: skip
        note(session, "2010-08-10 open AAPL: no order; too dear", NOW - 2 * DAY)
        note(session, "2010-08-11 watch AAPL: no order; wait", NOW - DAY)
    assert remembered(context()) == "\n".join(
        [
            "2010-08-11 verdict on the share BUY (medium)",
            "2010-08-11 risk CAUTION (high): Calm but dear.",
            "2010-08-11 catalyst CONFIRMED (high): Soon.",
            "2010-08-07 fundamentals CONFIRMED (high): fundamentals of AAPL",
            "2010-08-11 major risk (risk): drawdown 31%",
            "last trade note: 2010-08-11 watch AAPL: no order; wait",
        ]
    )


def test_a_rejection_names_the_major_risk_and_the_first_role_counts_when_no_other_answered(
    context: Context, store: Store
) -> None:
    with store.session() as session:
        researched(session, NOW - 9 * DAY, "catalyst", catalyst={"verdict": "REJECT", "key_risks": ["a trial"]})
        researched(session, NOW - DAY, "quick", rating="PASS", quick={"summary": "Fast."})
    text = str(remembered(context()))
    assert "major risk (catalyst): a trial" in text
    assert text.index("catalyst REJECT") < text.index("quick CONFIRMED (high): Fast.")


def test_the_memory_leaves_out_other_accounts_and_later_rows(context: Context, store: Store) -> None:
    """The run's own reports are left out as well: a role's prompt must not depend on which one was faster."""
    with store.session() as session:
        researched(session, NOW + dt.timedelta(seconds=1), "risk")
        researched(session, NOW - DAY, "risk", account="other")
        researched(session, NOW - DAY, "risk", market="yahoo")
        own = researched(session, NOW, "risk")
        note(session, "tomorrow", NOW + DAY)
        note(session, "another's", NOW - DAY, account="other")
    assert remembered(context(own.id)) is None
    assert "risk CONFIRMED" in str(remembered(context("another run")))


def test_long_reports_leave_room_for_the_short_lines(
    context: Context, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MEMORY_TOKENS", 130)
    long = {"summary": "Words. " * 300, "key_risks": ["r" * 900]}
    with store.session() as session:
        researched(session, NOW - DAY, "fundamentals", "risk", "catalyst", fundamentals=long, risk=long, catalyst=long)
        note(session, "2010-08-11 watch AAPL: no order; wait", NOW - DAY)
    text = str(remembered(context()))
    assert len(text.encode()) <= 130 * BYTES_A_TOKEN
    lines = text.splitlines()
    assert lines[0] == "2010-08-11 verdict on the share BUY (medium)"
    assert lines[-1] == "last trade note: 2010-08-11 watch AAPL: no order; wait"
    assert [line.endswith("…") for line in lines] == [False, True, True, True, True, False]


def test_the_memory_of_a_screen_has_the_lens_s_last_hits(context: Context, store: Store) -> None:
    with store.session() as session:
        for at, lens, symbol, thesis in (
            (NOW - 3 * DAY, "technical", "AAPL", "old"),
            (NOW - DAY, "technical", "AAPL", "new"),
            (NOW - 2 * DAY, "technical", "IBM", "steady"),
            (NOW - DAY, "technical", "GE", "not in the shard"),
            (NOW - DAY, "catalyst", "IBM", "another lens"),
            (NOW + DAY, "technical", "IBM", "tomorrow"),
        ):
            turn = add_turn(session, add_run(session, at, kind="screen"))
            add(
                session,
                ScreenHit(
                    run_id=turn.run_id, step_id=turn.step_id, turn_id=turn.id, lens=lens, symbol=symbol,
                    instrument="equity", confidence="high", thesis=thesis, market_at=at,
                ),
            )  # fmt: skip
    with store.read() as session:
        lens_lines = lens_memory(session, context(), "technical", ["AAPL", "IBM"])
        assert lens_memory(session, context(), "options", ["AAPL", "IBM"]) is None
    assert lens_lines == "2010-08-11 put forward AAPL (high): new\n2010-08-10 put forward IBM (high): steady"


def test_the_trader_s_last_decisions(context: Context, store: Store) -> None:
    with store.session() as session:
        for days, status, actions in (
            (4, "completed", []),
            (3, "completed", [("open", "AAPL"), ("watch", "IBM")]),
            (2, "refused", []),
            (1, "completed", []),
            (1, "completed", [("close", "AAPL")]),
            (-1, "completed", [("open", "GE")]),
        ):
            turn = add_turn(session, add_run(session, NOW - days * DAY))
            add(
                session,
                Decision(
                    id=new_id(), run_id=turn.run_id, step_id=turn.step_id, turn_id=turn.id, account="paper",
                    status=status, reasoning="Because.", author="x",
                    actions=[{"action": kind, "symbol": symbol} for kind, symbol in actions],
                ),
            )  # fmt: skip
    with store.read() as session:
        lens_lines = trader_memory(session, context())
    assert lens_lines == "\n".join(
        [
            "2010-08-09 decided: open AAPL, watch IBM. Because.",
            "2010-08-11 decided: nothing. Because.",
            "2010-08-11 decided: close AAPL. Because.",
        ]
    )


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@given(st.lists(texts, max_size=8), st.integers(1, 60))
def test_a_memory_fits_its_bound_and_is_cut_only_where_it_must_be(lines: list[str], tokens: int) -> None:
    most = tokens * BYTES_A_TOKEN
    flat = [line for line in (" ".join(one.split()) for one in lines) if line]
    lens_lines = fit(lines, tokens)
    if not flat:
        assert lens_lines is None
        return
    whole = "\n".join(flat)
    assert len((lens_lines or "").encode()) <= most
    if len(whole.encode()) <= most:
        assert lens_lines == whole


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(20, 60))
def test_a_line_is_cut_only_when_it_is_longer_than_the_ones_left_whole(sizes: list[int], tokens: int) -> None:
    lines = ["x" * size for size in sizes]
    lens_lines = (fit(lines, tokens) or "").splitlines()
    assert len(lens_lines) == len(lines)
    shortened = [len(line) for line, got in zip(lines, lens_lines, strict=True) if got != line]
    kept = [len(line) for line, got in zip(lines, lens_lines, strict=True) if got == line]
    assert not shortened or min(shortened) >= max(kept, default=0)
