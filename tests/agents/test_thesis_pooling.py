"""Theses are pooled by their log odds, and a rating follows from thresholds."""

from __future__ import annotations

import datetime as dt
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordesk.agents.thesis_pooling import (
    LEAST,
    MOST,
    STANCES,
    Basis,
    Rule,
    StatedThesis,
    log_odds,
    pool,
    probability_of,
    rule_of,
)
from chordesk.agents.verdicts.research_verdict import conclude, deciding_rule, reduce_reports, way_of
from chordesk.models.analysis import RoleReport
from chordesk.models.answers import Confidence, Rating, ReportStatus, Stance
from chordesk.models.errors import SettingError
from chordesk.models.thesis import KeptThesis, Pooled
from tests.examples import examples

ROLES = ("quick", "fundamentals", "risk", "catalyst", "chart")
chances = st.lists(st.floats(LEAST, MOST), min_size=1, max_size=4)
weights = st.lists(st.floats(0.1, 10), min_size=4, max_size=4)
RULE = Rule()


def stated(*chances: float | None) -> list[StatedThesis]:
    return [
        StatedThesis(role, None if chance is None else KeptThesis(probability=chance))
        for role, chance in zip(ROLES, chances, strict=False)
    ]


def pooled(theses: list[StatedThesis], given: list[float] | None = None) -> Pooled:
    return pool(theses, dict(zip(ROLES, given or [], strict=False)))


@settings(max_examples=examples(100))
@given(chances, weights, st.randoms(use_true_random=False))
def test_the_order_changes_nothing_and_the_other_side_is_the_mirror(
    given: list[float], weight: list[float], lot: object
) -> None:
    theses = stated(*given)
    found = pooled(theses, weight)
    assert pooled(theses[::-1], weight) == found
    other = pooled(stated(*(1 - chance for chance in given)), weight)
    assert found.probability is not None
    assert found.low is not None
    assert found.high is not None
    assert other.probability == pytest.approx(1 - found.probability, abs=2e-4)
    assert (other.low, other.high) == (pytest.approx(1 - found.high, abs=2e-4), pytest.approx(1 - found.low, abs=2e-4))
    assert found.low <= found.probability <= found.high
    odds = [math.log(one / (1 - one)) for one in given]
    mean = math.fsum(w * one for w, one in zip(weight, odds, strict=False)) / math.fsum(weight[: len(given)])
    assert min(0.5, probability_of(mean)) - 1e-4 <= found.probability <= max(0.5, probability_of(mean)) + 1e-4


@settings(max_examples=examples(100))
@given(chances, weights, st.integers(0, 3), st.floats(LEAST, MOST))
def test_a_higher_probability_of_one_lowers_none(
    given: list[float], weight: list[float], at: int, higher: float
) -> None:
    at %= len(given)
    raised = [max(one, higher) if place == at else one for place, one in enumerate(given)]
    before, after = pooled(stated(*given), weight).probability, pooled(stated(*raised), weight).probability
    assert before is not None
    assert after is not None
    assert after >= before


@settings(max_examples=examples(100))
@given(chances)
def test_a_report_without_data_adds_nothing_and_widens_unless_its_role_states_risks_alone(given: list[float]) -> None:
    alone, beside = pooled(stated(*given)), pooled(stated(*given, None))
    assert None not in (alone.low, alone.high, alone.probability, beside.low, beside.high, beside.probability)
    assert abs(beside.probability - 0.5) <= abs(alone.probability - 0.5) + 1e-4  # type: ignore[operator]
    assert _width(beside) >= _width(alone) - 1e-3
    assert (beside.theses, len(beside.rows)) == (alone.theses, len(alone.rows) + 1)
    of_risk = [*stated(*given), StatedThesis("z", KeptThesis(probability=0.9, move_low=-0.3), forecasts=False)]
    assert pool(of_risk).model_dump(exclude={"rows"}) == alone.model_dump(exclude={"rows"})


def _width(of: Pooled) -> float:
    assert of.low is not None
    assert of.high is not None
    return log_odds(of.high) - log_odds(of.low)


def test_a_move_goes_as_far_from_the_base_rate_as_the_probability_does() -> None:
    said = KeptThesis(probability=0.6, move=0.05, move_low=-0.1, move_high=0.2)
    found = pool([StatedThesis("a", said), StatedThesis("b", said)], None, Basis(0.52, 0.01, 0.001))
    assert found.probability is not None
    gone = (log_odds(found.probability) - log_odds(0.52)) / (log_odds(0.6) - log_odds(0.52))
    assert found.move == pytest.approx(0.01 + gone * 0.04, abs=1e-4)
    assert (found.base, found.cost, found.move_low, found.move_high) == (0.52, 0.001, -0.1, 0.2)


def test_the_invalidation_is_the_nearest_where_the_position_loses() -> None:
    def at(price: float | None, chance: float = 0.6) -> KeptThesis:
        return KeptThesis(
            probability=chance, invalidation={"level": "S1"}, invalidation_price=price, close=100.0, horizon=10
        )

    theses = [StatedThesis("risk", at(90.0)), StatedThesis("chart", at(95.0)), StatedThesis("quick", at(104.0))]
    found = pool(theses)
    assert (found.invalidation_price, found.invalidation_source, found.horizon) == (95.0, "chart S1", 10)
    short = pool([StatedThesis("risk", at(90.0, 0.3)), StatedThesis("chart", at(104.0, 0.4))])
    assert short.invalidation_price == 104.0
    assert pool([StatedThesis("risk", None)]) == pool([StatedThesis("risk", KeptThesis(horizon=5))])


def report(role: str, chance: float | None, stance: Stance = Stance.CONFIRMED, **more: object) -> RoleReport:
    return RoleReport(
        role=role, status=ReportStatus.COMPLETED, verdict=stance, confidence=Confidence.HIGH, summary="it says",
        thesis=KeptThesis(probability=chance, direction="up" if (chance or 0) > 0.5 else None, move=0.02), **more,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "rating", "rule"),
    [
        ((0.57, 0.57), Rating.BUY, "pooled 0.540 is at least 0.52, above one half with 0.76, and the expected move of"),
        ((0.53, 0.53), Rating.HOLD, "pooled 0.517 is below 0.52"),
        ((0.49, 0.49), Rating.CAUTION, "pooled 0.494 is below 0.5"),
        ((0.39, 0.39), Rating.PASS, "pooled 0.436 is below 0.44"),
        ((0.75, 0.35), Rating.HOLD, "is above one half with 0.6"),
        ((0.9, None), Rating.HOLD, "of 1 thesis alone"),
        ((None, None), Rating.INSUFFICIENT, "no thesis states a probability"),
    ],
)
def test_a_rating_follows_from_theses_and_says_by_which_comparison(
    given: tuple[float | None, ...], rating: Rating, rule: str
) -> None:
    """Whatever the stances: a CAUTION over thin evidence holds nothing back by itself."""
    reports = [report(role, one, Stance.CAUTION) for role, one in zip(("quick", "fundamentals"), given, strict=True)]
    found = conclude(reports, (), RULE)
    assert found.rating is rating
    assert rule in deciding_rule(found.rating, {}, found.summary)
    assert found.pooled is not None
    assert [row.probability for row in found.pooled.rows] == list(given)[::-1], "in the order of their roles"


def test_the_guards_hold_for_theses_too() -> None:
    good = [report("catalyst", 0.6, sourced=3), report("fundamentals", 0.6, sourced=3)]
    assert conclude(good, ("catalyst",), RULE).rating is Rating.BUY
    assert conclude(good, ("chart",), RULE).rating is Rating.HOLD, "a required role is missing"
    assert conclude(good[:1], (), RULE).rating is Rating.INSUFFICIENT, "nothing rests on one report"
    thin = [report("catalyst", 0.6, sourced=1), good[1]]
    assert conclude(thin, ("catalyst",), RULE).rating is Rating.HOLD, "a BUY rests on figures of a tool"
    made_up = [report("catalyst", 0.6, is_grounded=False), good[1]]
    assert conclude(made_up, (), RULE).rating is Rating.HOLD, "invented figures raise no probability"
    against = [report("catalyst", 0.2, is_grounded=False), report("fundamentals", 0.5)]
    assert conclude(against, (), RULE).rating is Rating.PASS, "and lower one all the same"
    assert conclude([report("quick", 0.9, Stance.REJECT)], (), RULE).rating is Rating.PASS, "its research ended there"
    no = [report("catalyst", 0.6, Stance.REJECT, sourced=3), good[1]]
    assert conclude(no, ("catalyst",), RULE).rating is Rating.HOLD, "a required role rejects it"
    assert conclude(no, (), RULE).rating is Rating.BUY, "or another does"
    level = KeptThesis(direction="up", probability=0.6, close=30.0, invalidation_price=28.5)
    wrong = good[1].model_copy(update={"thesis": level, "crossed_on": dt.date(2010, 3, 2)})
    found = conclude([*good[:1], wrong, report("quick", 0.6, sourced=3)], ("catalyst",), RULE)
    assert found.rating is Rating.HOLD
    assert "fundamentals was proven wrong on 2010-03-02, at 28.5" in found.summary
    assert found.pooled is not None
    assert found.pooled.theses == 2
    silent = [one.model_copy(update={"thesis": KeptThesis(probability=0.6)}) for one in good]
    assert conclude(silent, ("catalyst",), RULE).rating is Rating.HOLD, "no thesis says up"
    poor = [report("options", None, Stance.REJECT), *good]
    assert conclude(poor, ("catalyst",), RULE).rating is Rating.BUY, "a poor contract is no view of the share"


@pytest.mark.parametrize(
    ("chance", "stance", "more", "by_theses", "way"),
    [
        (0.6, Stance.CAUTION, {}, True, "up"),
        (0.6, Stance.REJECT, {}, True, "down"),
        (0.5, Stance.CONFIRMED, {}, True, None),
        (0.4, Stance.CONFIRMED, {}, True, "down"),
        (None, Stance.CAUTION, {}, True, "down"),
        (None, Stance.CONFIRMED, {}, True, None),
        (0.6, Stance.CONFIRMED, {"sourced": 1}, True, None),
        (0.4, Stance.CONFIRMED, {"sourced": 1}, True, "down"),
        (0.4, Stance.CONFIRMED, {"sourced": 0}, True, None),
        (0.4, Stance.REJECT, {"is_grounded": False}, True, None),
        (0.6, Stance.CONFIRMED, {"crossed_on": dt.date(2010, 3, 2)}, True, None),
        (0.6, Stance.CAUTION, {}, False, "down"),
    ],
)
def test_which_way_an_order_may_rest_on_a_report(
    chance: float | None, stance: Stance, more: dict[str, object], by_theses: bool, way: str | None
) -> None:
    assert way_of(report("catalyst", chance, stance, **more), by_theses=by_theses) == way


def test_stances_can_be_chosen_and_thresholds_named() -> None:
    reports = [report("catalyst", 0.1), report("fundamentals", 0.1)]
    assert conclude(reports, (), rule_of("stances")) == reduce_reports(reports, ())
    assert rule_of("stances") == STANCES
    assert rule_of("theses") == RULE
    assert rule_of("theses, buy=0.6, sure=0.9") == RULE._replace(buy=0.6, sure=0.9)


WRONG = ("", "votes", "stances,buy=0.6", "theses,sell=0.1", "theses,buy=high", "theses,buy=0.4", "theses,sure=0",
         "theses,spread=0.2", "theses,buy=nan")  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_rule_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(SettingError, match="DESK_CONCLUDE"):
        rule_of(wrong)
