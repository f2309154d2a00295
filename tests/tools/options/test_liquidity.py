"""The grade of a contract's liquidity."""

from __future__ import annotations

from typing import Any

import pytest

from chordesk.tools.option_contracts import liquidity_of, mid_of
from tests.tools.options.chains import row


@pytest.mark.parametrize(
    ("figures", "grade"),
    [
        ({"bid": 2.0, "ask": 2.1}, "good"),
        ({"bid": 1.0, "ask": 1.05}, "good"),  # 4.9 % of mid
        ({"bid": 0.20, "ask": 0.25}, "good"),  # wide as a share, a nickel in money
        ({"bid": 0.20, "ask": 0.30}, "fair"),
        ({"bid": 2.0, "ask": 2.2}, "fair"),
        ({"bid": 2.0, "ask": 2.3}, "poor"),
        ({"bid": 2.0, "ask": 2.1, "volume": 49.0}, "fair"),
        ({"bid": 2.0, "ask": 2.1, "volume": None}, "unknown"),
        ({"bid": 2.0, "ask": 2.1, "open_interest": 499.0}, "fair"),
        ({"bid": 2.0, "ask": 2.1, "open_interest": 99.0}, "poor"),
        ({"bid": 2.0, "ask": 2.1, "open_interest": None}, "unknown"),
        ({"bid": 2.0, "ask": 2.3, "open_interest": None}, "poor"),
        ({"bid": 0.0, "ask": 0.05}, "poor"),
        ({"bid": 2.2, "ask": 2.1}, "poor"),
        ({"bid": None, "ask": None}, "unknown"),
    ],
)
def test_the_grade(figures: dict[str, Any], grade: str) -> None:
    quoted = row("AAA240419P00095000", figures.pop("bid"), figures.pop("ask"), **figures)
    assert liquidity_of(quoted, mid_of(quoted)[0]) == grade
