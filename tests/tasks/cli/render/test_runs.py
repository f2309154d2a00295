"""The report of a run as text."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlmodel import Session, select

from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Run, Turn, Verdict
from chordesk.tasks.cli.show.runs import attempts_report, progress_line, progress_panel, run_report
from chordesk.tasks.reading.run_details import AttemptRow
from chordesk.tasks.reading.runs import progress, view
from tests.builders import a_run
from tests.tasks.cli.render.console import rendered
from tests.tasks.views.chain import Chain


def test_the_report_of_a_run_fits_a_narrow_terminal_and_names_the_model(session: Session, chain: Chain) -> None:
    run = session.get_one(Run, chain.run_id)
    for verdict in session.exec(select(Verdict).where(Verdict.run_id == run.id)):
        verdict.missing = ["fundamentals: failed (" + "x" * 500 + ")"]
    shown = rendered(run_report(view(session, run)))
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert "Verdicts, model rulebook (rules, no model)" in shown
    assert "Trader (rulebook (rules, no model)): completed. both are good" in shown
    assert "suppressed: too soon" in shown
    assert "2 of 2 verdicts" in shown or "…" in shown
    assert shown.count("fundamentals: failed") == 1, "one line for all verdicts that it is missing from"
    assert "Gate" not in shown, "a run that goes on has no figures yet"


def test_roles_with_a_model_of_their_own_are_named_in_the_headline(session: Session, chain: Chain) -> None:
    run = session.get_one(Run, chain.run_id)
    assert f"model {run.model}\n" in rendered(run_report(view(session, run)))
    for turn in session.exec(select(Turn).where(Turn.run_id == run.id, Turn.role == "quick")):
        turn.model = "codex:gpt-5.6"
    assert view(session, run).role_models == {"quick": "codex:gpt-5.6"}
    assert f"model {run.model}; codex:gpt-5.6 for quick\n" in rendered(run_report(view(session, run)), width=200)


def test_an_order_that_waits_for_a_person_is_shown_with_the_command_that_lets_it_go(
    session: Session, chain: Chain
) -> None:
    order, run = session.get_one(Order, chain.order_id), session.get_one(Run, chain.run_id)
    command = f"waits for you: desk approve {order.id}"
    assert command not in rendered(run_report(view(session, run)), width=200)
    order.state = OrderState.APPROVAL_PENDING.value
    session.add(order)
    session.flush()
    assert f"{order.symbol} {command}" in rendered(run_report(view(session, run)), width=200)


@pytest.mark.parametrize(("kind", "shown"), [("episode", False), ("screen", True)])
def test_only_a_run_that_can_have_candidates_shows_them(session: Session, kind: str, shown: bool) -> None:
    seen = progress(session, a_run(session, kind=kind).id)
    assert ("candidates none yet" in progress_line(seen)) is shown
    assert ("candidates" in rendered(progress_panel(seen))) is shown


AT = dt.datetime(2026, 11, 20, 12, 0, tzinfo=dt.UTC)


def row(step: str, outcome: str, attempt: int = 1, reason: str | None = None) -> AttemptRow:
    return AttemptRow(
        step_id=step, kind="report", role="risk", subject="IBM", attempt=attempt, max_attempts=3, owner="w@h:1:a",
        started_at=AT, ended_at=AT, outcome=outcome, reason=reason, seconds=1.5,
    )  # fmt: skip


def test_a_stop_on_purpose_is_no_attempt_that_went_wrong() -> None:
    assert attempts_report([row("a", "done"), row("b", "stopped", reason="quick rejected it")]) is None


def test_a_lost_attempt_is_listed_with_the_next_one() -> None:
    shown = attempts_report([row("a", "lost", reason="no renewal"), row("a", "done", 2), row("b", "stopped")])
    assert shown is not None
    assert rendered(shown).splitlines() == [
        "Attempts that did not go well, of 1 done, 1 lost, 1 stopped",
        "  report risk IBM",
        "    1 of 3  lost after 1.5 s on w@h: no renewal",
        "    2 of 3  done after 1.5 s on w@h",
    ]
