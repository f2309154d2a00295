"""The whole book bounds sizes: it never makes one larger, and neither does what is not known of it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chordesk.models.thesis import Pooled
from chordesk.tools.holdings.valuing import Priced
from chordesk.tools.holdings.whole_book import RULE, OutsideBook, Part, further, tightest, whole_bound
from chordesk.tools.portfolio.size_bounds import OVERLAP, SECTOR_SHARE, SYMBOL_SHARE, Standing, sizing
from tests.examples import examples
from tests.tools.portfolio.test_size_bounds import NAMES, WIDE, moves, standing

ATRS = dict.fromkeys(NAMES, 0.02)


def book(*parts: Part, returns: dict[str, Any] | None = None, units: dict[str, float] | None = None) -> OutsideBook:
    known = Priced(dict.fromkeys(NAMES, 50.0), units or dict.fromkeys(NAMES, 0.04), returns or {})
    return OutsideBook(parts, known, {name: f"sector {name}" for name in NAMES}, {})


def share(symbol: str | None, value: float | None, unit: float | None = 0.04, **more: Any) -> Part:
    worth = None if value is None or unit is None else abs(value) * unit
    short = more.pop("short", (value or 0.0) < 0)
    return Part(symbol, "share", value, short, abs(value or 0.0), worth, -1 if short else 1, **more)


def most(now: Standing, outside: OutsideBook | None, symbol: str = NAMES[0]) -> float | None:
    return sizing(symbol, Pooled(probability=0.6), replace(now, further=(further(outside),) if outside else ())).most


def test_a_symbol_that_is_held_elsewhere_leaves_less_room() -> None:
    """By hand: a tenth of 100,000 + 150,000 is 25,000, of which 24,000 are held outside."""
    now = standing({}, ATRS, {}, **(WIDE | {"max_symbol_share": 0.1}), position_risk=0.05)
    assert most(now, None) == 10_000
    outside = book(share(NAMES[0], 24_000.0), Part(None, "cash", 126_000.0))
    assert whole_bound(outside, NAMES[0], Pooled(), now) == 1_000
    assert tightest(outside, NAMES[0], Pooled(), now) == (1_000, SYMBOL_SHARE)
    assert most(now, outside) == 1_000
    found = sizing(NAMES[0], Pooled(), replace(now, further=(further(outside),)))
    assert (found.bound, found.overlap) == (RULE, [])


def test_what_moves_with_holdings_elsewhere_is_pressed() -> None:
    """Overlap by hand: 0.25 % of 200,000 over 4 % to the stop is 12,500, divided by sqrt(1 + 0.02 / 0.0025)."""
    now = standing({}, ATRS, {}, **WIDE, max_sector_share=1.0)
    outside = book(share(NAMES[1], 100_000.0), returns=dict.fromkeys(NAMES[:2], moves(1, 1, 0.5)[NAMES[0]]))
    now = replace(now, heat=replace(now.heat, returns=dict(outside.priced.returns)))
    bound = whole_bound(outside, NAMES[0], Pooled(), now)
    assert bound is not None
    assert abs(bound - 12_500 / 3) < 0.02


def test_nothing_is_opened_beside_a_debt_or_a_like_holding_of_unknown_value() -> None:
    now = standing({}, ATRS, {}, **WIDE)
    for part in (
        share(NAMES[0], None),
        Part(None, "cash", None, short=True),
        share(NAMES[3], None, short=True),
        Part(None, "cash", -150_000.0, short=True),
    ):
        assert most(now, book(part)) is None or most(now, book(part)) == 0
    assert (most(now, book(share(NAMES[3], None, unit=None))) or 0) > 0


values = st.floats(min_value=-2e5, max_value=2e6, allow_nan=False, allow_infinity=False)
parts = st.one_of(
    st.builds(share, st.sampled_from(NAMES), values, st.sampled_from([0.01, 0.04, 0.2, None])),
    st.builds(share, st.sampled_from([*NAMES, None]), st.none(), st.sampled_from([0.04, None]), short=st.booleans()),
    st.builds(share, st.none(), values, st.none()),
    st.builds(lambda value: Part(None, "cash", value, (value or 0) < 0), st.one_of(st.none(), values)),
    st.builds(
        lambda symbol, value, side: Part(symbol, "option", value, value < 0, abs(value), abs(value), side),
        st.sampled_from(NAMES), values, st.sampled_from([-1, 1]),
    ),
)  # fmt: skip
own = st.dictionaries(st.sampled_from(NAMES), st.floats(min_value=-3e4, max_value=3e4), max_size=6)


def account(held: dict[str, float], seed: int, common: float, wide: bool, sector: float) -> Standing:
    limits = WIDE if wide else {}
    now = standing(held, ATRS, moves(seed, len(NAMES), common), **{**limits, "max_sector_share": sector})
    rows = tuple(replace(row, heat=abs(row.heat), side=1 if row.heat >= 0 else -1) for row in now.heat.rows)
    exposures = {name: abs(money) for name, money in (now.exposures or {}).items()}
    return replace(now, heat=replace(now.heat, rows=rows), exposures=exposures)


@given(
    held=own, outside=st.lists(parts, max_size=8), seed=st.integers(0, 50), common=st.floats(0, 0.95),
    wide=st.booleans(), sector=st.sampled_from([0.2, 0.5, 1.0]), symbol=st.sampled_from(NAMES),
)  # fmt: skip
@settings(max_examples=examples(100), deadline=None)
def test_nothing_outside_makes_a_size_larger(
    held: dict[str, float],
    outside: list[Part],
    seed: int,
    common: float,
    wide: bool,
    sector: float,
    symbol: str,
) -> None:
    now = account(held, seed, common, wide, sector)
    without = most(now, None, symbol)
    beside = most(now, book(*outside, returns=moves(seed, len(NAMES), common)), symbol)
    assert without is not None
    assert beside is not None
    assert beside <= without


@given(
    held=own, outside=st.lists(parts, max_size=5), seed=st.integers(0, 50), common=st.floats(0, 0.95),
    name=st.sampled_from(NAMES), value=st.floats(min_value=0, max_value=1e7),
    unit=st.sampled_from([0.01, 0.04, 0.2, None]), sector=st.sampled_from([0.5, 1.0]),
)  # fmt: skip
@settings(max_examples=examples(100), deadline=None)
def test_a_holding_without_a_value_leaves_no_more_room_than_one_of_any_value(
    held: dict[str, float],
    outside: list[Part],
    seed: int,
    common: float,
    name: str,
    value: float,
    unit: float | None,
    sector: float,
) -> None:
    now = account(held, seed, common, True, sector)
    units = {one: 0.04 for one in NAMES if one != name or unit is not None} | ({name: unit} if unit else {})
    found = [
        whole_bound(
            book(*outside, share(name, worth, unit), returns=moves(seed, len(NAMES), common), units=units),
            NAMES[0], Pooled(probability=0.6), now,
        )
        for worth in (None, value)
    ]  # fmt: skip
    unknown, known = found
    assert unknown is not None
    assert known is not None
    assert unknown <= known + 0.01


def test_rules_of_the_whole_are_the_account_s_own() -> None:
    now = standing({NAMES[1]: 5_000.0}, ATRS, {}, max_sector_share=0.5)
    rules = {one.rule for one in sizing(NAMES[0], Pooled(), now).bounds}
    assert {SYMBOL_SHARE, SECTOR_SHARE, OVERLAP} <= rules
    assert Decimal(str(whole_bound(book(), NAMES[0], Pooled(), now))) > 0
