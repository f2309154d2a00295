"""The interval of a pooled probability covers a share's chance as often as it says, with roles that err together."""

from __future__ import annotations

import math

import numpy as np
import pytest

from chordesk.agents.thesis_pooling import (
    ERROR,
    SHARED,
    SPREAD,
    Basis,
    StatedThesis,
    log_odds,
    pool,
    probability_of,
)
from chordesk.models.thesis import KeptThesis

DRAWS = 1000


def coverage(
    roles: int = 4, *, base: float = 0.5, spread: float = SPREAD, error: float = ERROR, shared: float = SHARED
) -> float:
    """How often the interval has the chance that was drawn. spread, error, shared: of the world; the pool's are its
    own."""
    rng, covered = np.random.default_rng(7), 0
    for _ in range(DRAWS):
        chance = log_odds(base) + spread * rng.normal()
        common, own = math.sqrt(shared) * error * rng.normal(), math.sqrt(1 - shared) * error * rng.normal(size=roles)
        said = [KeptThesis(probability=probability_of(chance + common + one)) for one in own]
        found = pool([StatedThesis(str(at), one) for at, one in enumerate(said)], None, Basis(base))
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= probability_of(chance) <= found.high
    return covered / DRAWS


@pytest.mark.parametrize(("roles", "base"), [(2, 0.5), (4, 0.5), (6, 0.42)])
def test_the_interval_covers_what_it_says_with_roles_that_err_together(roles: int, base: float) -> None:
    assert 0.93 <= coverage(roles, base=base) <= 0.97


@pytest.mark.parametrize(
    ("world", "least", "most"),
    [
        ({"shared": 0.2}, 0.96, 1.0),
        ({"error": 0.25}, 0.96, 1.0),
        ({"spread": 0.2}, 0.96, 1.0),
        ({"shared": 0.8}, 0.89, 0.95),
        ({"error": 0.5}, 0.88, 0.94),
        ({"spread": 0.5}, 0.88, 0.94),
        ({"error": 0.5, "shared": 0.7}, 0.83, 0.90),
    ],
    ids=str,
)
def test_a_world_that_breaks_an_assumption_costs_a_few_points(
    world: dict[str, float], least: float, most: float
) -> None:
    assert least <= coverage(**world) <= most  # type: ignore[arg-type]


def test_one_more_role_that_says_the_same_moves_less_and_none_makes_it_certain() -> None:
    said = [pool([StatedThesis(str(at), KeptThesis(probability=0.7)) for at in range(n)]) for n in (1, 2, 4, 8, 64)]
    chances = [one.probability or 0.0 for one in said]
    steps = np.diff(chances)
    assert (steps > 0).all()
    assert (np.diff(steps[:3]) < 0).all()
    assert chances[-1] < 0.7
    assert said[-1].low is not None
    assert said[-1].low < 0.55, "what roles share does not fade with their number"
