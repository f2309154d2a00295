"""The one sentence: nothing of few sessions, nothing where zero lies within, and a caveat on what is left."""

from __future__ import annotations

from itertools import accumulate

from chordesk.tools.backtests import LEAST_SESSIONS, conclusion


def walk(drift: float, steps: int, period: int = 2) -> list[float]:
    """Values that drift by so much a step, and go up and down by a tenth of a percent every so many steps."""
    moves = (0.001 if (step // period) % 2 else -0.001 for step in range(steps))
    return list(accumulate(moves, lambda value, move: value * (1 + drift + move), initial=100.0))


def test_few_sessions_show_nothing_however_good_they_look() -> None:
    text = conclusion(walk(0.05, LEAST_SESSIONS - 1), walk(0, LEAST_SESSIONS - 1, 3), rules=True)
    assert text.startswith("Nothing can be concluded about the rulebook, which is fixed rules and no model: 29 steps")


def test_a_difference_within_its_error_is_none() -> None:
    assert conclusion(walk(0, 60), walk(0, 60, 3), rules=False).startswith("No difference is shown: the desk came to")


def test_a_difference_beyond_its_error_is_named_with_its_side_and_a_caveat() -> None:
    better = conclusion(walk(0.01, 60), walk(0, 60, 3), rules=False)
    worse = conclusion(walk(-0.01, 60), walk(0, 60, 3), rules=True)
    assert "came to more than chance explains" in better
    assert "that a model may have read about" in better
    assert "came to less than chance explains" in worse


def test_a_step_without_a_price_is_left_out() -> None:
    desk: list[float | None] = [*walk(0, 40)]
    desk[5] = None
    assert "over 38 steps" in conclusion(desk, walk(0, 40, 3), rules=True)


def test_it_is_one_sentence() -> None:
    for drift, steps in ((0, 3), (0, 60), (0.01, 60)):
        text = conclusion(walk(drift, steps), walk(0, steps, 3), rules=True)
        assert text.endswith(".")
        assert ". " not in text
