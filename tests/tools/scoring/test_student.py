"""Quantiles of Student's t against published ones."""

from __future__ import annotations

import pytest

from chordesk.tools.scoring.statistics import t_95


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.706), (2, 4.303), (5, 2.571), (20, 2.086), (21, 2.080), (29, 2.045), (60, 2.000), (1000, 1.962)],
)
def test_known_quantiles(degrees: int, quantile: float) -> None:
    assert t_95(degrees) == pytest.approx(quantile, abs=1e-3)


def test_they_fall_towards_the_normal_one() -> None:
    found = [t_95(degrees) for degrees in range(1, 200)]
    assert found == sorted(found, reverse=True)
    assert found[-1] > 1.959964
