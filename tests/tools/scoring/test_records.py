"""Track records from the database, judgements without a probability, and the odds of verdicts."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import Session, select

from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Calibration
from chordesk.models.tables.runs import Run, ScreenHit
from chordesk.tools.scoring.statistics import ScoredForecast, score
from chordesk.tools.scoring.track_records import (
    PRIOR,
    Precision,
    VoicePlan,
    lens_judgements,
    plan_voices,
    precisions,
    role_judgements,
    tiers_of,
    tool_forecasts,
    verdict_judgements,
    voice_forecasts,
    voice_plans,
    walked,
)
from chordesk.tools.scoring.verdict_calibration import (
    calibrations_in_force,
    cutoffs_of,
    side_of,
    store_odds,
    verdict_odds,
)
from chordesk.tools.scoring.voice_scores import VoiceRecord
from tests.builders import a_candidate, a_report, a_step, a_turn, a_verdict_on
from tests.tools.scoring.rows import RULES, a_forecast, a_question, a_run_on, a_signal, on_board, on_day
from tests.tools.scoring.test_voices import record


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
            market_at=run.market_now,
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
    assert lens_judgements(session, "paper", since=on_day(14)) == [found]
    assert lens_judgements(session, "paper", since=on_day(15)) == []
    assert lens_judgements(session, "other") == []


def test_reports_and_verdicts_are_scored_by_the_question_of_the_verdict(session: Session) -> None:
    """The verdict names its question, whatever other one its symbol has that day."""
    run = a_run_on(session, 0)
    a_question(session, "another", 0.0)
    mine = a_question(session, "mine", 1.0, source="verdict")
    report = a_report(session, a_step(session, run, role="risk"), a_turn(session, a_step(session, run)))
    a_verdict_on(session, report.candidate_id, mine.id)
    (role,) = role_judgements(session, "paper")
    assert (role.source, role.label, role.question, role.outcome) == ("risk", "CONFIRMED high", mine.id, 1.0)
    (rated,) = verdict_judgements(session, "paper")
    assert (rated.source, rated.label, rated.question, rated.author) == ("BUY", "BUY high", mine.id, run.model)


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
    assert tool_forecasts(session, "paper", since=on_day(14)) == found
    assert tool_forecasts(session, "paper", since=on_day(15)) == []
    assert tool_forecasts(session, "other") == []


def test_a_tool_s_directions_count_by_their_record_up_to_that_day(session: Session) -> None:
    """Of what implies .7, one tool is right seven times in ten, one five times, one never, and one is new."""
    rights = {"sure": 7, "guess": 5, "wrong": 0, "new": 7}
    for day in range(120):
        run = a_run_on(session, 3 * day)
        for tool, right in rights.items():
            if tool != "new" or day >= 110:
                question = a_question(session, f"{tool} {day}", float(day * 7 % 10 < right), 3 * day)
                on_board(session, run, question, f"Q{tool}")
                a_signal(session, run, tool, None, f"Q{tool}", confidence=0.4)
    found = precisions(session, "paper", on_day(372))
    assert found["sure"].factor == pytest.approx(1, abs=0.05)
    assert found["guess"].factor < 0.3
    assert found["wrong"].factor == 0, "a direction is never turned round"
    assert found["new"] == Precision(1.0, 10)
    assert precisions(session, "paper", on_day(60))["guess"] == Precision(1.0, 16), "too few were known then"
    assert precisions(session, "paper", on_day(800)) == {}, "nobody learns from what is years ago"


VOICES = ("ada", "bo", "cy", "di")
GOOD, BAD = record("ada", 0.05, 0.01), record("bo", -0.05, 0.01)
UNKNOWN = (VoiceRecord("cy"), VoiceRecord("di"))


def settings(**values: Any) -> Settings:
    return Settings(home=Path("/nowhere"), **values)


def test_a_proven_voice_goes_deeper_and_a_costly_one_is_left_out() -> None:
    """Three live on: shares 2/3, 1/6 and 1/6 of six turns are 4, 1 and 1."""
    plans = plan_voices([GOOD, BAD, *UNKNOWN], settings(), 2)
    assert list(plans) == ["ada", "cy", "di"]
    assert plans["ada"] == VoicePlan(pytest.approx(2 / 3), 4, 2, "deep")
    assert plans["cy"] == plans["di"] == VoicePlan(pytest.approx(1 / 6), 1, 1, "standard")


def test_all_voices_have_the_same_where_records_do_not_count() -> None:
    equal = plan_voices([GOOD, BAD, *UNKNOWN], settings(voice_compute="equal"), 2)
    assert equal == dict.fromkeys(VOICES, VoicePlan(pytest.approx(0.25), 2, 2, "standard"))


def test_models_go_by_the_rank_of_the_shares() -> None:
    """The first tier for the largest share; those that are equal share the one in the middle of their ranks."""
    one_ahead = {"ada": 0.6, "bo": 0.1, "cy": 0.1, "di": 0.1, "ed": 0.1}
    assert tiers_of(one_ahead, 3) == {"ada": 0, **dict.fromkeys(("bo", "cy", "di", "ed"), 1)}
    assert tiers_of({"ada": 0.5, "bo": 0.3, "cy": 0.2}, 3) == {"ada": 0, "bo": 1, "cy": 2}
    assert tiers_of(dict.fromkeys(VOICES, 0.25), 3) == dict.fromkeys(VOICES, 1)
    assert tiers_of(dict.fromkeys(VOICES, 0.25), 1) == dict.fromkeys(VOICES, 0)
    assert tiers_of({"ada": 1.0}, 0) == {"ada": None}


def test_plans_come_from_what_was_known_on_the_day(session: Session) -> None:
    """Ada is right on 40 days and wrong on none: a proven record once enough of them have closed."""
    for day in range(40):
        run, question = a_run_on(session, 3 * day), a_question(session, f"q{day}", 1.0, 3 * day)
        a_forecast(session, run, question, "ada", 0.8 + day / 1000)
        a_forecast(session, run, question, "bo", 0.5)
    early = voice_plans(session, settings(), "paper", ("ada", "bo", "cy"), until=on_day(60))
    later = voice_plans(session, settings(), "paper", ("ada", "bo", "cy"), until=on_day(150))
    assert [plan.turns for plan in early.values()] == [2, 2, 2]
    assert {voice: plan.turns for voice, plan in later.items()} == {"ada": 4, "bo": 1, "cy": 1}
    off = voice_plans(session, settings(voice_compute="equal"), "paper", ("ada", "bo", "cy"), until=on_day(150))
    assert [plan.turns for plan in off.values()] == [2, 2, 2]


START = dt.datetime(2026, 1, 5, 20, tzinfo=dt.UTC)


def judgement(question: str, outcome: float, day: float, label: str = "BUY high", closes: float = 14) -> ScoredForecast:
    at = START + dt.timedelta(days=day)
    return ScoredForecast("BUY", question, at, at + dt.timedelta(days=closes), 0.5, 0.5, outcome, label=label)


def test_a_record_grows_by_what_was_known() -> None:
    """The first two are worth the baseline, since nothing is known yet; on day 20 both are: (2 + 15) / 32; another
    label has a record of its own."""
    rows = [judgement("q3", 0, 20), judgement("q1", 1, 0), judgement("q2", 1, 5), judgement("q4", 1, 21, "BUY low")]
    assert [one.probability for one in walked(rows)] == pytest.approx([0.5, 0.5, 17 / 32, 0.5])


def test_a_question_that_is_judged_daily_is_one_piece_of_evidence() -> None:
    daily = [judgement("q1", 1, day, closes=10 - day) for day in range(5)]
    last = walked([*daily, judgement("q2", 1, 30)])[-1]
    assert last.probability == pytest.approx(16 / 31)


def test_a_judgement_never_draws_on_its_own_outcome_or_later_ones() -> None:
    draws = np.random.default_rng(1)
    rows = [judgement(f"q{day}", float(draws.random() < 0.6), day) for day in range(80)]
    turned = [
        judgement(one.question, 1 - one.outcome if day >= 40 else one.outcome, day) for day, one in enumerate(rows)
    ]
    assert rows != turned
    before = [one.probability for one in walked(rows)][:54]
    assert before == [one.probability for one in walked(turned)][:54]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["BUY high", "BUY low"]), st.integers(0, 5), st.integers(0, 96), st.sampled_from("ab")
        ),
        min_size=1,
        max_size=60,
    )
)
def test_alike_judgements_score_as_each_by_itself_would(drawn: list[tuple[str, int, int, str]]) -> None:
    """Every figure to the last digit, also of judgements made when the outcome was known."""
    rows = []
    for label, number, hours, author in sorted(drawn, key=lambda one: one[2]):
        times = (on_day(0) + dt.timedelta(hours=hours), on_day(0) + dt.timedelta(days=number))
        base, outcome = 0.3 + number / 10, number / 8
        rows.append(ScoredForecast("BUY", f"q{number}", *times, base, base, outcome, author, label=label))
    single = []
    for place, one in enumerate(rows):
        known = {(row.known, row.question, row.outcome) for row in rows[:place] if row.label == one.label}
        seen = [outcome for moment, _, outcome in sorted(known) if moment <= one.at]
        worth = min(1.0, (sum(seen) + PRIOR * one.baseline) / (len(seen) + PRIOR))
        single.append(replace(one, probability=worth, evidence=len(seen)))
    found = walked(rows)
    assert score(found) == score(single)
    assert sum(one.alike for one in found if not one.evidence) == sum(not one.evidence for one in single)


def probability_of(
    session: Session, account: str, author: str, rating: str, confidence: str, at: dt.datetime | None = None
) -> float | None:
    found = calibrations_in_force(session, account, author, at).get((rating, confidence))
    return found.probability if found else None


def a_verdict(session: Session, nth: int, symbol: str, outcome: float, model: str = RULES, rating: str = "BUY") -> None:
    """The nth verdict, one each third day: five of their questions overlap."""
    day = 3 * nth
    run = a_run_on(session, day, model=model)
    a_question(session, f"{symbol} {day} {run.id}", outcome, day, symbol=symbol)
    a_verdict_on(session, a_candidate(session, run, symbol).id, rating=rating)


def test_before_thirty_dates_there_is_none(session: Session) -> None:
    """58 questions on 29 dates are not enough, and one more date is."""
    for day in range(29):
        a_verdict(session, day, "AAPL", float(day % 4 != 0))
        a_verdict(session, day, "IBM", 1.0)
    (few,) = verdict_odds(session, "paper", {})
    assert (few.n, few.dates, few.found) == (58, 29, None)
    assert store_odds(session, "paper", [few]) == []
    assert probability_of(session, "paper", RULES, "BUY", "high") is None
    a_verdict(session, 29, "AAPL", 1.0)
    (enough,) = verdict_odds(session, "paper", {})
    assert (enough.author, enough.rating, enough.confidence) == (RULES, "BUY", "high")
    assert (odds := enough.found) is not None
    assert odds.probability == pytest.approx((30 - 8 / 2) / 30)
    assert odds.low < odds.probability < odds.high
    (more,) = verdict_odds(session, "paper", {}, least=60)
    assert more.found is None


def test_each_date_has_one_vote(session: Session) -> None:
    """30 dates of which 15 went well, one of them with 40 verdicts: still one half."""
    for day in range(30):
        a_verdict(session, day, "AAPL", float(day % 2))
    for number in range(40):
        a_verdict(session, 1, f"S{number}", 1.0)
    (found,) = verdict_odds(session, "paper", {})
    assert (found.n, found.dates) == (70, 30)
    assert found.found is not None
    assert found.found.probability == pytest.approx(0.5)


def test_it_is_stored_once_and_holds_for_its_model_account_and_time(session: Session) -> None:
    for day in range(30):
        a_verdict(session, day, "AAPL", float(day % 3 != 0))
    found = verdict_odds(session, "paper", {})
    (row,) = store_odds(session, "paper", found)
    assert store_odds(session, "paper", found) == []
    assert len(session.exec(select(Calibration)).all()) == 1
    assert probability_of(session, "paper", RULES, "BUY", "high") == row.probability == pytest.approx(2 / 3)
    assert probability_of(session, "paper", RULES, "BUY", "high", on_day(3 * 29 + 14)) == row.probability
    assert probability_of(session, "paper", RULES, "BUY", "high", on_day(3 * 29 + 13)) is None
    for other in (("other", RULES, "BUY", "high"), ("paper", "codex:gpt-5.5", "BUY", "high")):
        assert probability_of(session, *other) is None
    assert probability_of(session, "paper", RULES, "PASS", "high") is None
    assert probability_of(session, "paper", RULES, "BUY", "low") is None


def test_verdicts_that_the_model_may_have_read_about_are_left_out(session: Session) -> None:
    for day in range(35):
        a_verdict(session, day, "AAPL", float(day % 3 != 0), model="codex:gpt-5.5")
    (clean,) = verdict_odds(session, "paper", {})
    assert (clean.n, clean.contaminated) == (35, 0)
    assert clean.found is not None
    assert clean.found.probability == pytest.approx(23 / 35)
    (found,) = verdict_odds(session, "paper", cutoffs_of("gpt-5.5=2010-01-31"))
    assert (found.n, found.contaminated, found.found) == (25, 10, None)


def test_less_than_thirty_is_never_enough(session: Session) -> None:
    with pytest.raises(UsageError, match="29 questions"):
        verdict_odds(session, "paper", {}, least=29)


DAY = dt.date(2025, 6, 30)


def test_a_setting_gives_days_by_model() -> None:
    settings = Settings(model_cutoffs="gpt-5.5=2025-06-30; litellm:anthropic/c=2024-01-01 ;")
    found = cutoffs_of(settings.model_cutoffs)
    assert found == {"gpt-5.5": DAY, "litellm:anthropic/c": dt.date(2024, 1, 1)}
    assert cutoffs_of("") == {}


@pytest.mark.parametrize(
    ("author", "day", "side"),
    [
        ("codex:gpt-5.5", DAY, "before"),
        ("codex:gpt-5.5", DAY + dt.timedelta(days=1), "after"),
        ("gpt-5.5", DAY, "before"),
        ("litellm:anthropic/c", dt.date(2024, 1, 2), "after"),
        ("litellm:other", DAY, "unknown"),
        ("rulebook (rules, no model)", DAY, "exempt"),
        ("code", DAY, "exempt"),
    ],
)
def test_a_forecast_lies_on_one_side(author: str, day: dt.date, side: str) -> None:
    cutoffs = {"gpt-5.5": DAY, "litellm:anthropic/c": dt.date(2024, 1, 1)}
    assert side_of(author, day, cutoffs) == side
