"""The record of tools, from the database."""

from __future__ import annotations

from sqlmodel import Session

from chordesk.tools.scoring.track_records import tool_forecasts
from tests.tools.scoring.records.board import a_question, a_run_on, a_signal, on_board, on_day


def test_a_signal_is_scored_on_the_questions_of_its_board_that_it_concerns(session: Session) -> None:
    run = a_run_on(session, 0)
    aapl, ibm = a_question(session, "aapl", 1.0), a_question(session, "ibm", 0.0, symbol="IBM")
    on_board(session, run, aapl, "Q1")
    on_board(session, run, ibm, "Q2", baseline=0.4)
    a_signal(session, run, "momentum", 0.7, "AAPL", "XOM")
    a_signal(session, run, "calendar", 0.3, "Q2")
    a_signal(session, run, "regime", 0.9)  # on everything: it implies nothing for one
    a_signal(session, run, "silent", None, "AAPL")
    a_signal(session, run, "broken", 0.9, "AAPL", state="offline")
    other = a_run_on(session, 1)
    a_signal(session, other, "momentum", 0.1, "AAPL")  # AAPL is not asked about on its board
    found = tool_forecasts(session, "paper")
    assert {(one.source, one.question, one.probability, one.baseline, one.outcome) for one in found} == {
        ("momentum", aapl.id, 0.7, 0.5, 1.0),
        ("calendar", ibm.id, 0.3, 0.4, 0.0),
    }
    assert {one.author for one in found} == {"code"}
    assert tool_forecasts(session, "paper", on_day(13)) == []
    assert tool_forecasts(session, "other") == []


def test_a_question_without_a_baseline_is_not_scored(session: Session) -> None:
    run = a_run_on(session, 0)
    question = a_question(session, "q", 1.0, baseline=None)
    on_board(session, run, question, "Q1", baseline=None)
    a_signal(session, run, "momentum", 0.7, "AAPL")
    assert tool_forecasts(session, "paper") == []
