"""Judgements without a probability, scored by their record before them."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from chordesk.tools.scoring.statistics import ScoredForecast, score
from chordesk.tools.scoring.track_records import rates, walked

START = dt.datetime(2026, 1, 5, 20, tzinfo=dt.UTC)


def judgement(question: str, outcome: float, day: float, label: str = "BUY high", closes: float = 14) -> ScoredForecast:
    at = START + dt.timedelta(days=day)
    return ScoredForecast("BUY", question, at, at + dt.timedelta(days=closes), 0.5, 0.5, outcome, label=label)


def test_a_record_grows_by_what_was_known() -> None:
    """The first two are worth the baseline, since nothing is known yet; on day 20 both are: (2 + 15) / 32; another
    label has a record of its own."""
    rows = [
        judgement("q3", 0, 20),
        judgement("q1", 1, 0),
        judgement("q2", 1, 5),
        judgement("q4", 1, 21, "BUY low"),
    ]
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


def test_a_skilled_label_earns_alpha_and_a_random_one_none() -> None:
    draws = np.random.default_rng(4)
    for chance, low, high in ((0.75, 0.02, 0.07), (0.5, -0.01, 0.003)):
        rows = [judgement(f"q{day}", float(draws.random() < chance), day) for day in range(600)]
        found = score(walked(rows))
        assert found is not None
        assert low < found.alpha.mean < high


def test_rates_by_label() -> None:
    rows = [judgement("q1", 1, 0), judgement("q2", 0, 0), judgement("q3", 1, 1), judgement("q4", 0, 1, "BUY low")]
    found = rates(rows)
    assert list(found) == ["BUY high", "BUY low"]
    assert found["BUY high"].mean == pytest.approx(2 / 3)
    assert (found["BUY high"].n, found["BUY high"].dates) == (3, 2)
