"""When a role is due on a holding, and why: every case, and what holds for all of them."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.settings import Settings
from chordesk.tasks.workflows.portfolio import (
    Due,
    DueReason,
    HoldingSnapshot,
    Limits,
    NotDue,
    ago,
    due,
    limits_of,
    signed,
)
from tests.builders import MARKET_NOW

HOUR = dt.timedelta(hours=1)
LIMITS = Limits(24 * HOUR, price_move=0.05, unrealized_change=0.05)


def look(price: float | None = 100.0, unrealized: float | None = 0.02, *, hours: float = 0.0) -> HoldingSnapshot:
    """A look so many hours before now."""
    return HoldingSnapshot(MARKET_NOW - hours * HOUR, price, unrealized)


LAST = look(hours=3)
CASES = [
    (None, look(), DueReason.INITIAL_RUN, "initial run"),
    (look(hours=-1), look(), DueReason.INITIAL_RUN, "initial run"),  # in replay: a look of a later day
    (LAST, look(100.0, 0.09), DueReason.UNREALIZED_CHANGE, "unrealized +7%"),
    (LAST, look(100.0, -0.0325), DueReason.UNREALIZED_CHANGE, "unrealized -5.25%"),
    (LAST, look(100.0, 0.07), DueReason.UNREALIZED_CHANGE, "unrealized +5%"),
    (LAST, look(95.0, 0.02), DueReason.PRICE_MOVE, "price -5%"),
    (LAST, look(105.0, None), DueReason.PRICE_MOVE, "price +5%"),
    (LAST, look(112.5, 0.12), DueReason.UNREALIZED_CHANGE, "unrealized +10%"),  # the first that holds
    (look(hours=24), look(), DueReason.AGE_TIMEOUT, "24 h old"),
    (look(None, None, hours=24 * 9), look(), DueReason.AGE_TIMEOUT, "9 d old"),
]


@pytest.mark.parametrize(("last", "now", "reason", "text"), CASES)
def test_a_role_is_due_for_each_reason(
    last: HoldingSnapshot | None, now: HoldingSnapshot, reason: DueReason, text: str
) -> None:
    assert due(last, now, LIMITS) == Due(reason, text)
    assert due(last, now, LIMITS, asked=True) == Due(DueReason.MANUAL, "manual")


@pytest.mark.parametrize(
    ("last", "now", "blind"),
    [
        (LAST, look(104.9, 0.069), ()),
        (LAST, look(None, 0.069), ("price not known now",)),
        (look(100.0, None, hours=3), look(100.0, 2.0), ("unrealized not known at the last look",)),
        (LAST, look(None, None), ("price not known now", "unrealized not known now")),
        (look(0.0, hours=3), look(), ("price not known at the last look",)),
    ],
)
def test_a_role_that_is_not_due_names_its_time_and_what_cannot_make_it_due(
    last: HoldingSnapshot, now: HoldingSnapshot, blind: tuple[str, ...]
) -> None:
    assert due(last, now, LIMITS) == NotDue(last.at + 24 * HOUR, blind)


figures = st.none() | st.floats(0.01, 10_000)
gains = st.none() | st.floats(-1, 10)
times = st.floats(-100, 1000).map(lambda hours: MARKET_NOW + hours * HOUR)
looks = st.builds(HoldingSnapshot, times, figures, gains)
fractions = st.floats(0.001, 1)
limits = st.builds(Limits, st.floats(0.1, 500).map(lambda hours: hours * HOUR), fractions, fractions)


@given(st.none() | looks, looks, limits)
def test_each_reason_needs_its_change(last: HoldingSnapshot | None, now: HoldingSnapshot, within: Limits) -> None:
    """By exact arithmetic, give or take the last digits of a float."""
    found = due(last, now, within)
    if last is None or last.at > now.at:
        assert found == Due(DueReason.INITIAL_RUN, "initial run")
        return
    aged = now.at - last.at >= within.age
    moves = None if last.price is None or now.price is None else abs(Fraction(now.price) / Fraction(last.price) - 1)
    changes = (
        None if last.unrealized is None or now.unrealized is None else abs(Fraction(now.unrealized - last.unrealized))
    )
    near = Fraction(1, 10**9)
    if isinstance(found, NotDue):
        assert found.due_at == last.at + within.age
        assert found.due_at > now.at
        assert moves is None or moves < within.price_move + near
        assert changes is None or changes < within.unrealized_change + near
        assert [line.split()[0] for line in found.blind] == [
            name for name, change in (("price", moves), ("unrealized", changes)) if change is None
        ]
    elif found.reason is DueReason.PRICE_MOVE:
        assert moves is not None
        assert moves > within.price_move - near
        assert changes is None or changes < within.unrealized_change + near
    elif found.reason is DueReason.UNREALIZED_CHANGE:
        assert changes is not None
        assert changes > within.unrealized_change - near
    else:
        assert found.reason is DueReason.AGE_TIMEOUT
        assert aged


@given(looks, looks, limits, st.floats(0, 1000))
def test_once_due_it_stays_so_while_the_figures_stay(
    last: HoldingSnapshot, now: HoldingSnapshot, within: Limits, hours: float
) -> None:
    later = HoldingSnapshot(now.at + hours * HOUR, now.price, now.unrealized)
    if isinstance(due(last, now, within), Due) and last.at <= now.at:
        assert isinstance(due(last, later, within), Due)


@given(looks, limits)
def test_a_role_that_has_just_looked_is_not_due(now: HoldingSnapshot, within: Limits) -> None:
    assert isinstance(due(now, now, within), NotDue)


def test_the_limits_are_settings(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, role_age_hours=6, price_move=0.1, unrealized_change=0.2)
    assert limits_of(settings) == Limits(6 * HOUR, 0.1, 0.2)


@pytest.mark.parametrize(
    ("minutes", "text"), [(0, "0 min"), (119, "119 min"), (120, "2 h"), (71 * 60 + 59, "71 h"), (72 * 60, "3 d")]
)
def test_spans_as_text(minutes: int, text: str) -> None:
    assert ago(dt.timedelta(minutes=minutes)) == text


@pytest.mark.parametrize(
    ("change", "text"), [(0.07, "+7%"), (-0.0525, "-5.25%"), (0.0002, "+0.02%"), (1.234, "+123%"), (None, "unknown")]
)
def test_changes_as_text(change: float | None, text: str) -> None:
    assert signed(change) == text
