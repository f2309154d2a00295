"""The record of voices, from the database."""

from __future__ import annotations

import pytest
from sqlmodel import Session

from chordesk.tools.scoring.track_records import better_round, voice_forecasts, voice_records
from tests.tools.scoring.records.board import a_forecast, a_question, a_run_on, on_day


def test_only_what_has_an_outcome_is_read(session: Session) -> None:
    run = a_run_on(session, 0)
    for name, outcome, state in [("yes", 1.0, "resolved"), ("open", None, "open"), ("void", None, "void")]:
        a_forecast(session, run, a_question(session, name, outcome, state=state), "ada", 0.7)
    other = a_run_on(session, 0, account="other")
    a_forecast(session, other, a_question(session, "other", 1.0), "ada", 0.9)
    (found,) = voice_forecasts(session, "paper")
    assert (found.source, found.probability, found.baseline, found.outcome) == ("ada", 0.7, 0.5, 1.0)
    assert (found.at, found.known, found.run, found.round) == (on_day(0), on_day(14), run.id, 1)
    assert [one.probability for one in voice_forecasts(session, "other")] == [0.9]


def test_a_day_draws_on_nothing_that_closed_later(session: Session) -> None:
    for day in range(3):
        a_forecast(session, a_run_on(session, day), a_question(session, f"q{day}", 1.0, day), "ada", 0.7)
    assert len(voice_forecasts(session, "paper", on_day(13))) == 0
    assert len(voice_forecasts(session, "paper", on_day(15))) == 2
    assert len(voice_forecasts(session, "paper")) == 3


def test_an_outcome_before_the_deadline_is_known_from_then_on(session: Session) -> None:
    early, late = on_day(3), on_day(20)
    for name, resolved_at in (("early", early), ("late", late)):
        a_forecast(session, a_run_on(session, 0), a_question(session, name, 1.0, resolved_at=resolved_at), "ada", 0.7)
    assert [one.known for one in voice_forecasts(session, "paper", early)] == [early]
    assert sorted(one.known for one in voice_forecasts(session, "paper", late)) == [early, on_day(14)]


def test_a_record_is_alpha_of_the_last_positions(session: Session) -> None:
    for day, outcome in ((0, 1.0), (1, 0.0)):
        run, question = a_run_on(session, day), a_question(session, f"q{day}", outcome, day)
        a_forecast(session, run, question, "ada", 0.2)
        a_forecast(session, run, question, "ada", 0.7, round=2)
    ada, newcomer = voice_records(voice_forecasts(session, "paper"), ["ada", "newcomer"])
    assert ada.alpha is not None
    assert ada.alpha.mean == pytest.approx((0.16 - 0.24) / 2)
    assert (ada.alpha.n, ada.alpha.dates) == (2, 2)
    assert newcomer.alpha is None


def test_the_blind_round_leads_until_the_second_has_the_better_record(session: Session) -> None:
    run, question = a_run_on(session, 0), a_question(session, "q", 1.0)
    a_forecast(session, run, question, "ada", 0.6)
    assert better_round(session, "paper") == 1
    a_forecast(session, run, question, "ada", 0.8, round=2)
    assert better_round(session, "paper") == 2
    assert better_round(session, "paper", on_day(3)) == 1
