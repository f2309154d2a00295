"""Arms in pairs: how often equal arms are told apart, how often a planted difference is found, and what is compared."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from chordesk.tools.measure.experiments import RETURN, SCORE, Call, Course, compare, differing
from chordesk.tools.scoring.inference import told_apart

FIRST = dt.date(2024, 1, 1)
SEEDS = 600


def days(count: int) -> list[dt.date]:
    return [FIRST + dt.timedelta(days=place) for place in range(count)]


def course(name: str, returns: np.ndarray, calls: dict[tuple[str, dt.date], Call] | None = None) -> Course:
    equity = 100_000 * np.cumprod(np.append(1.0, 1 + returns))
    return Course(name, name, dict(zip(days(len(equity)), equity.tolist(), strict=True)), calls or {}, 0)


def arms(seed: int, sessions: int, planted: float) -> list[Course]:
    """Two that share the market, whose own returns are as wide, and one of which is better by so much a session."""
    draw = np.random.default_rng(seed)
    market = draw.normal(0, 0.01, sessions)
    own = draw.normal(0, 0.004, (2, sessions))
    return [course("first", market + own[0]), course("second", market + own[1] + planted)]


def rejected(sessions: int, planted: float) -> float:
    """Return in how many of the seeds the session's return is told from zero."""
    found = 0
    for seed in range(SEEDS):
        (difference, _) = compare(arms(seed, sessions, planted), lambda *_: None, 10)
        assert difference.what == RETURN
        found += bool(told_apart({0: difference.found}))
    return found / SEEDS


def test_equal_arms_are_told_apart_in_one_of_twenty() -> None:
    assert 0.03 <= rejected(120, 0.0) <= 0.07


def test_a_planted_difference_is_found_as_often_as_was_announced() -> None:
    (pilot, _) = compare(arms(10_000, 400, 0.0), lambda *_: None, 10, 0.001)
    sessions = pilot.needed
    assert sessions is not None
    assert 0.7 <= rejected(sessions, 0.001) <= 0.9


def test_names_that_both_arms_judged_are_scored_in_pairs() -> None:
    names = [f"N{place}" for place in range(6)]
    keys = [(name, day) for day in days(60) for name in names]
    draw = np.random.default_rng(3)
    came = {key: float(draw.random() < 0.5) for key in keys}
    blind = {key: Call("HOLD", 0.5) for key in keys}
    seeing = {key: Call("BUY", 0.5 + 0.4 * (came[key] - 0.5)) for key in keys if key[0] != "N5"}
    flat = np.zeros(59)
    one, two = course("blind", flat, blind), course("seeing", flat, seeing)
    by_what = {found.what: found for found in compare([one, two], lambda name, day: came[name, day], 1)}
    score = by_what[SCORE].found
    assert score is not None
    assert (score.n, score.mean) == (5 * 60, pytest.approx(0.3**2 - 0.25))
    assert {(other.symbol, other.arm and other.arm.rating) for other in differing(one, two)} == {
        (name, None if name == "N5" else "BUY") for name in names
    }
