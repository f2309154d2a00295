"""The interval of a share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.scoring.statistics import wilson


def test_known_intervals() -> None:
    """1,782 tries of which 58.5 % hit: 56 to 61 %; and 0 of 10, where share +- error would give nothing."""
    found = wilson(1042, 1782)
    assert found == pytest.approx((0.5617, 0.6074), abs=1e-4)
    assert wilson(0, 10) == pytest.approx((0.0, 0.27754), abs=1e-5)
    assert wilson(5, 10) == pytest.approx((0.23659, 0.76341), abs=1e-5)


def test_without_a_try_there_is_none() -> None:
    assert wilson(0, 0) is None


@given(st.integers(1, 5000), st.floats(0, 1))
def test_it_holds_the_share_and_narrows_with_tries(n: int, share: float) -> None:
    found, more = wilson(share * n, n), wilson(share * n * 4, n * 4)
    assert found is not None
    assert more is not None
    assert 0 <= found.low <= share + 1e-9
    assert share - 1e-9 <= found.high <= 1
    assert more.high - more.low < found.high - found.low


@pytest.mark.parametrize("hits", [-1, 11, float("nan")])
def test_hits_lie_from_none_to_all(hits: float) -> None:
    with pytest.raises(UsageError, match="hits of 10"):
        wilson(hits, 10)
