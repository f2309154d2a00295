"""The record of lenses, roles and verdicts, from the database."""

from __future__ import annotations

from sqlmodel import Session

from chordesk.models.tables.board import VerdictQuestion
from chordesk.models.tables.runs import Run, ScreenHit, Verdict
from chordesk.tools.scoring.track_records import lens_judgements, role_judgements, verdict_judgements
from tests.builders import a_report, a_step, a_turn
from tests.tools.scoring.records.board import RULES, a_question, a_run_on, on_day


def a_hit(session: Session, run: Run, lens: str, symbol: str, confidence: str = "high", model: str = RULES) -> None:
    step = a_step(session, run)
    turn = a_turn(session, step, model=model)
    session.add(
        ScreenHit(
            run_id=run.id,
            step_id=step.id,
            turn_id=turn.id,
            lens=lens,
            symbol=symbol,
            instrument="equity",
            confidence=confidence,
            thesis="up",
        )
    )
    session.flush()


def test_a_hit_is_scored_by_the_question_of_its_symbol_and_day(session: Session) -> None:
    question = a_question(session, "aapl", 1.0)
    a_question(session, "open", None, symbol="IBM")
    a_question(session, "elsewhere", 1.0, symbol="GE", market="yahoo")
    run = a_run_on(session, 0)
    for symbol in ("AAPL", "IBM", "GE", "XOM"):
        a_hit(session, run, "technical", symbol, model="codex:gpt-5.5")
    a_hit(session, a_run_on(session, 1), "technical", "AAPL")  # of a day without a question
    (found,) = lens_judgements(session, "paper")
    assert (found.source, found.label, found.question) == ("technical", "high", question.id)
    assert (found.author, found.outcome, found.at, found.known) == ("codex:gpt-5.5", 1.0, on_day(0), on_day(14))
    assert lens_judgements(session, "paper", on_day(13)) == []
    assert lens_judgements(session, "other") == []


def test_reports_and_verdicts_are_scored_by_the_question_of_the_verdict(session: Session) -> None:
    """The verdict names its question, whatever other one its symbol has that day."""
    run = a_run_on(session, 0)
    a_question(session, "another", 0.0)
    mine = a_question(session, "mine", 1.0, source="verdict")
    report = a_report(session, a_step(session, run, role="risk"), a_turn(session, a_step(session, run)))
    verdict = Verdict(
        run_id=run.id, candidate_id=report.candidate_id, symbol="AAPL", rating="BUY", confidence="high", summary=""
    )
    session.add(verdict)
    session.flush()
    session.add(VerdictQuestion(verdict_id=verdict.id, question_id=mine.id))
    session.flush()
    (role,) = role_judgements(session, "paper")
    assert (role.source, role.label, role.question, role.outcome) == ("risk", "CONFIRMED high", mine.id, 1.0)
    (rated,) = verdict_judgements(session, "paper")
    assert (rated.source, rated.label, rated.question, rated.author) == ("BUY", "BUY high", mine.id, run.model)


def test_a_report_that_failed_judged_nothing(session: Session) -> None:
    a_question(session, "q", 1.0)
    step = a_step(session, a_run_on(session, 0), role="risk")
    a_report(session, step, a_turn(session, step), status="failed", verdict=None, confidence=None)
    assert role_judgements(session, "paper") == []
