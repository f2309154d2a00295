"""A verdict's probability: none before there is enough, then that of its record, and never of a later day."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlmodel import Session, select

from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Calibration
from chordesk.models.tables.runs import Verdict
from chordesk.tools.scoring.verdict_calibration import (
    calibrations_in_force,
    cutoffs_of,
    side_of,
    store_odds,
    verdict_odds,
)
from tests.builders import a_candidate
from tests.tools.scoring.records.board import RULES, a_question, a_run_on, on_day


def probability_of(
    session: Session, account: str, author: str, rating: str, confidence: str, at: dt.datetime | None = None
) -> float | None:
    found = calibrations_in_force(session, account, author, at).get((rating, confidence))
    return found.probability if found else None


def a_verdict(session: Session, day: int, symbol: str, outcome: float, model: str = RULES, rating: str = "BUY") -> None:
    run = a_run_on(session, day, model=model)
    a_question(session, f"{symbol} {day} {run.id}", outcome, day, symbol=symbol)
    candidate = a_candidate(session, run, symbol)
    session.add(
        Verdict(run_id=run.id, candidate_id=candidate.id, symbol=symbol, rating=rating, confidence="high", summary="")
    )
    session.flush()


def test_before_thirty_dates_there_is_none(session: Session) -> None:
    """58 questions on 29 dates are not enough, and one more date is."""
    for day in range(29):
        a_verdict(session, day, "AAPL", float(day % 4 != 0))
        a_verdict(session, day, "IBM", 1.0)
    (few,) = verdict_odds(session, "paper", {})
    assert (few.n, few.dates, few.probability) == (58, 29, None)
    assert store_odds(session, "paper", [few]) == []
    assert probability_of(session, "paper", RULES, "BUY", "high") is None
    a_verdict(session, 29, "AAPL", 1.0)
    (enough,) = verdict_odds(session, "paper", {})
    assert (enough.author, enough.rating, enough.confidence) == (RULES, "BUY", "high")
    assert enough.probability == pytest.approx((30 - 8 / 2) / 30)
    assert enough.low is not None
    assert enough.high is not None
    assert enough.low < enough.probability < enough.high
    (more,) = verdict_odds(session, "paper", {}, least=60)
    assert more.probability is None


def test_each_date_has_one_vote(session: Session) -> None:
    """30 dates of which 15 went well, one of them with 40 verdicts: still one half."""
    for day in range(30):
        a_verdict(session, day, "AAPL", float(day % 2))
    for number in range(40):
        a_verdict(session, 1, f"S{number}", 1.0)
    (found,) = verdict_odds(session, "paper", {})
    assert (found.n, found.dates) == (70, 30)
    assert found.probability == pytest.approx(0.5)


def test_it_is_stored_once_and_holds_for_its_model_account_and_time(session: Session) -> None:
    for day in range(30):
        a_verdict(session, day, "AAPL", float(day % 3 != 0))
    found = verdict_odds(session, "paper", {})
    (row,) = store_odds(session, "paper", found)
    assert store_odds(session, "paper", found) == []
    assert len(session.exec(select(Calibration)).all()) == 1
    assert probability_of(session, "paper", RULES, "BUY", "high") == row.probability == pytest.approx(2 / 3)
    assert probability_of(session, "paper", RULES, "BUY", "high", on_day(43)) == row.probability
    assert probability_of(session, "paper", RULES, "BUY", "high", on_day(42)) is None
    for other in (("other", RULES, "BUY", "high"), ("paper", "codex:gpt-5.5", "BUY", "high")):
        assert probability_of(session, *other) is None
    assert probability_of(session, "paper", RULES, "PASS", "high") is None
    assert probability_of(session, "paper", RULES, "BUY", "low") is None


def test_the_newest_is_in_force(session: Session) -> None:
    for day in range(30):
        a_verdict(session, day, "AAPL", float(day % 3 != 0))
    store_odds(session, "paper", verdict_odds(session, "paper", {}))
    a_verdict(session, 30, "AAPL", 1.0)
    (newer,) = store_odds(session, "paper", verdict_odds(session, "paper", {}))
    assert probability_of(session, "paper", RULES, "BUY", "high") == newer.probability == pytest.approx(21 / 31)
    assert probability_of(session, "paper", RULES, "BUY", "high", on_day(43)) == pytest.approx(2 / 3)


def test_verdicts_that_the_model_may_have_read_about_are_left_out(session: Session) -> None:
    for day in range(35):
        a_verdict(session, day, "AAPL", 1.0, model="codex:gpt-5.5")
    (clean,) = verdict_odds(session, "paper", {})
    assert (clean.n, clean.contaminated, clean.probability) == (35, 0, 1.0)
    (found,) = verdict_odds(session, "paper", cutoffs_of("gpt-5.5=2010-01-13"))
    assert (found.n, found.contaminated, found.probability) == (25, 10, None)


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
