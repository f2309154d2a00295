"""The one sentence on what a walk shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean, stdev

from chordesk.tools.scoring.wilson import Z

# Below it the error of a mean is itself hardly known.
LEAST_SESSIONS = 30


def conclusion(desk: Sequence[float | None], held: Sequence[float], *, rules: bool) -> str:
    """Return what may be concluded from the values of the desk and of the universe bought and held, by session.

    rules: the desk was played by fixed rules and no model.
    """
    steps = [
        (after / before - 1) - (other / base - 1)
        for (before, after), (base, other) in zip(pairwise(desk), pairwise(held), strict=True)
        if before and after and base
    ]
    of_what = "the rulebook, which is fixed rules and no model" if rules else "the desk"
    if len(steps) < LEAST_SESSIONS:
        return (
            f"Nothing can be concluded about {of_what}: {len(steps)} steps between sessions are too few to part a "
            f"difference from chance, for which {LEAST_SESSIONS} are the least."
        )
    centre, error = mean(steps), stdev(steps) / math.sqrt(len(steps))
    low, high = centre - Z * error, centre + Z * error
    bounds = f"{centre:+.3%} a step against the universe held, between {low:+.3%} and {high:+.3%}"
    if low <= 0 <= high:
        return f"No difference is shown: {of_what} came to {bounds} over {len(steps)} steps, and zero lies within."
    side = "more" if centre > 0 else "less"
    caveat = "one stretch of one market" if rules else "one stretch of one market that a model may have read about"
    return (
        f"Over {len(steps)} steps {of_what} came to {side} than chance explains, {bounds}; it is {caveat}, and "
        "does not carry over to another by itself."
    )
