"""The autoscaler's rule: its formula, its bounds, and that it goes down late and up at once."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.fleet.scaler import Rule, Scaler

RULE = Rule(turns=8, least=1, most=4, poll=5, settle=30)
LOOKS = st.lists(
    st.tuples(st.floats(0.5, 20), st.one_of(st.none(), st.integers(0, 200))), min_size=1, max_size=40
)  # seconds since the look before, and the query's answer


def played(looks: list[tuple[float, int | None]], start: int = 1) -> list[tuple[float, int | None, int, int]]:
    """Return (time, steps, workers before, workers after) of each look."""
    scaler, workers, now, found = Scaler(RULE), start, 0.0, []
    for seconds, steps in looks:
        now += seconds
        decision = scaler.decide(now, steps, workers)
        assert decision.before == workers
        found.append((now, steps, workers, decision.workers))
        workers = decision.workers
    return found


def test_it_wants_a_worker_for_each_so_many_steps() -> None:
    scaler = Scaler(RULE)
    assert [scaler.decide(at, steps, 1).workers for at, steps in enumerate((0, 1, 8, 9, 24, 25, 500))] == [
        1, 1, 1, 2, 3, 4, 4,
    ]  # fmt: skip


@given(LOOKS)
@settings(max_examples=examples(100))
def test_it_keeps_within_its_bounds_and_goes_up_at_once(looks: list[tuple[float, int | None]]) -> None:
    for _, steps, before, after in played(looks):
        assert RULE.least <= after <= RULE.most
        if steps is None:
            assert after == before, "a query that failed changes nothing"
        else:
            assert after >= min(max(math.ceil(steps / RULE.turns), RULE.least), RULE.most)


@given(LOOKS)
@settings(max_examples=examples(100))
def test_it_goes_down_to_the_most_that_was_wanted_within_the_window(looks: list[tuple[float, int | None]]) -> None:
    found = played(looks)
    for number, (now, _, before, after) in enumerate(found):
        if after < before:
            recent = [steps for at, steps, *_ in found[: number + 1] if steps is not None and at >= now - RULE.settle]
            assert after == min(max(math.ceil(max(recent) / RULE.turns), RULE.least), RULE.most)


def test_a_short_dip_takes_no_worker_away() -> None:
    busy, dip = (5.0, 32), (5.0, 0)
    found = played([busy, dip, dip, busy, *[dip] * 6, dip])
    assert [after for *_, after in found] == [4] * 10 + [1], "30 s after the last look that wanted 4"


def test_a_pause_holds_a_number_whatever_is_due() -> None:
    scaler = Scaler(RULE, paused=2)
    assert [scaler.decide(at, steps, 1).workers for at, steps in enumerate((0, 500, None))] == [2, 2, 2]
    scaler.paused = None
    assert scaler.decide(3.0, 500, 2).workers == 4


def test_each_decision_has_its_reason() -> None:
    scaler = Scaler(RULE)
    assert scaler.decide(0.0, 30, 1).reason == "30 steps due or in work, 8 a worker: 4 wanted"
    assert scaler.decide(1.0, None, 4).reason == "the query failed: no change"
    assert scaler.decide(2.0, 3, 4).reason == "3 steps due or in work, 8 a worker: 1 wanted, 4 within the last 30 s"
    assert scaler.decide(40.0, 3, 4).reason == "3 steps due or in work, 8 a worker: 1 wanted, at most 1 for 30 s"
